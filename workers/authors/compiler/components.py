"""Independent parts of a problem, and common names for those that compute the same. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpu_runner.contracts import Graph, Problem
from gpu_runner.contracts.graph import Arg, Expr, Node
from workers.authors.compiler.graph import names_in, references
from workers.authors.compiler.program import UPSTREAM

# What each part may compute for itself: it moves tensors that all share, and computes nothing of them.
SHAREABLE = frozenset({"input", "full", "arange", "reshape", "expand", "permute", "slice", "cast"})


@dataclass(frozen=True)
class Component:
    """A problem that is a part of another; ``outputs`` are the places of its outputs among those of the whole."""

    problem: Problem
    graph: Graph
    outputs: tuple[int, ...]

    def may_overwrite(self, allowed: tuple[str, ...]) -> tuple[str, ...]:
        """Give what of the whole's memory may be overwritten, by the component's own numbers of outputs."""
        own = {f"{UPSTREAM}{place}": f"{UPSTREAM}{index}" for index, place in enumerate(self.outputs)}
        return tuple(own.get(name, name) for name in allowed if name in own or name in self.graph.inputs)


def components_of(problem: Problem, graph: Graph) -> tuple[Component, ...]:
    """Give the parts of a well-formed graph that share nothing but what they load."""
    nodes = {node.name: node for node in graph.nodes}
    ends = [*graph.outputs, *(node for _, node in graph.gradients if node is not None)]
    needed = {end: _ancestors(end, nodes) for end in ends}
    for output, upstream in zip(graph.outputs, graph.upstream, strict=True):
        needed[output] |= {upstream} if upstream is not None else set()
    groups: list[set[str]] = []
    for end in dict.fromkeys(ends):
        held = {name for name in needed[end] if not _is_shareable(name, nodes)} | {end}
        joined = [group for group in groups if group & held]
        groups = [group for group in groups if group not in joined]
        groups.append(set().union(held, *joined))
    first = [min((i for i, node in enumerate(graph.outputs) if node in group), default=len(ends)) for group in groups]
    ordered = [group for _, group in sorted(zip(first, groups, strict=True), key=lambda pair: pair[0])]
    if any(not group & set(graph.outputs) for group in groups):
        return ()  # a gradient that follows from no output
    return tuple(_component(problem, graph, group, needed) for group in ordered)


def _ancestors(end: str, nodes: dict[str, Node]) -> set[str]:
    found: set[str] = set()
    waiting = [end]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(ref.name for ref in references(nodes[name].args))
    return found


def _is_shareable(name: str, nodes: dict[str, Node]) -> bool:
    return all(nodes[inner].op in SHAREABLE for inner in _ancestors(name, nodes))


def _component(problem: Problem, graph: Graph, group: set[str], needed: dict[str, set[str]]) -> Component:
    places = tuple(index for index, node in enumerate(graph.outputs) if node in group)
    gradients = tuple((name, node) for name, node in graph.gradients if node in group)
    outputs = tuple(graph.outputs[place] for place in places)
    used = set().union(*(needed[end] for end in (*outputs, *(node for _, node in gradients if node is not None))))
    used |= {name for name, _ in gradients}
    kept = tuple(node for node in graph.nodes if node.name in used)
    inputs = tuple(name for name in graph.inputs if name in used)
    texts = {name for node in kept for text in _texts((*node.args, *node.meta.shape)) for name in names_in(text)}
    rules = tuple(rule for rule in graph.multiples if texts & {*names_in(rule.of)} and rule.dimension in texts)
    texts |= {name for rule in rules for name in names_in(rule.of)}
    scalars = tuple(s for s in problem.scalars if s.name in texts or s.name in graph.specialised)
    known = {*inputs, *(scalar.name for scalar in scalars)}
    own = replace(
        problem,
        inputs=tuple(spec for spec in problem.inputs if spec.name in inputs),
        scalars=scalars,
        parameters=tuple(name for name in problem.parameters if name in known),
    )
    part = replace(
        graph,
        nodes=kept,
        inputs=inputs,
        outputs=outputs,
        upstream=tuple(graph.upstream[place] for place in places),
        gradients=gradients,
        tuple_output=len(outputs) > 1,
        rounded=tuple(rounding for rounding in graph.rounded if rounding.node in used),
        multiples=rules,
        output_dtypes=tuple(graph.output_dtypes[place] for place in places) if graph.output_dtypes else (),
    )
    return Component(own, part, places)


def _texts(arguments: tuple[Arg, ...]) -> list[str]:
    found: list[str] = []
    for argument in arguments:
        if isinstance(argument, Expr):
            found.append(argument.text)
        elif isinstance(argument, tuple):
            found += _texts(argument)
    return found


TENSORS, VECTORS = ("x", "z", "u", "v"), ("w", "b", "s", "t")  # what inputs of most dimensions are called, and others


@dataclass(frozen=True)
class CommonNames:
    """What to call inputs (by the problem's names) and outputs; ``group`` tells parts apart that are not alike."""

    group: int
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]


def common_names(components: Sequence[Component]) -> list[CommonNames | None]:
    """Give names for each part that looks like another one, None for a part that looks like none."""
    kinds = [_kind(part) for part in components]
    distinct = list(dict.fromkeys(kinds))
    pairs = list(zip(components, kinds, strict=True))
    return [_names(distinct.index(kind), [p for p, other in pairs if other == kind], part) for part, kind in pairs]


def _kind(part: Component) -> tuple[object, ...]:
    inputs = tuple(replace(spec, name="", dims=("",) * len(spec.dims)) for spec in part.problem.inputs)
    operators = tuple(node.op for node in part.graph.nodes)
    return inputs, operators, len(part.outputs), part.problem.scalars, part.graph.specialised


def _names(group: int, alike: list[Component], part: Component) -> CommonNames | None:
    if len(alike) < 2:
        return None
    rows = [[spec.name for spec in other.problem.inputs] for other in alike]
    own = [spec.name for spec in part.problem.inputs]
    places = [place for place, names in enumerate(zip(*rows, strict=True)) if len(set(names)) > 1]
    kept = {name for names in rows for place, name in enumerate(names) if place not in places}
    most = max(len(spec.dims) for spec in part.problem.inputs)
    free = [[name for name in names if name not in kept] for names in (TENSORS, VECTORS)]
    inputs = []
    for place in places:
        left = free[len(part.problem.inputs[place].dims) < most]
        if not left:
            return None
        inputs.append((own[place], left.pop(0)))
    count = len(part.outputs)
    outputs = ("y",) if count == 1 else tuple(f"y_{index}" for index in range(count))
    return CommonNames(group, tuple(inputs), outputs)
