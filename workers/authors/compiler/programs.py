"""A problem as a list of programs: one, or one for each part that shares no computation with the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpu_runner.contracts import Graph, Pass, Problem
from gpu_runner.contracts.graph import Node
from workers.authors.compiler.attention import Chain, with_chains
from workers.authors.compiler.design import ProgramDesign, build_design
from workers.authors.compiler.graph import CannotCompileError, names_in, require_well_formed, texts_of, with_bounds
from workers.authors.compiler.launchers import (
    backward_arguments,
    forward_results,
    gradient_text,
    launchers,
    parameters,
)
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import UPSTREAM, ValueProgram
from workers.authors.compiler.series import SeriesStep, kept_numbers, steps_of
from workers.authors.compiler.values import topological
from workers.authors.protocol import Brief, SourceStyle

# What each part may compute for itself: it moves tensors that all share, and computes nothing of them.
SHAREABLE = frozenset({"input", "full", "arange", "reshape", "expand", "permute", "slice", "cast"})


@dataclass(frozen=True)
class Component:
    """A problem that is a part of another; ``outputs`` are the places of its outputs among those of the whole."""

    problem: Problem
    graph: Graph
    outputs: tuple[int, ...]

    def may_overwrite(self, allowed: tuple[str, ...]) -> tuple[str, ...]:
        """What of the whole's memory may be overwritten, by the component's own numbers of outputs."""
        own = {f"{UPSTREAM}{place}": f"{UPSTREAM}{index}" for index, place in enumerate(self.outputs)}
        return tuple(own.get(name, name) for name in allowed if name in own or name in self.graph.inputs)


def components_of(problem: Problem, graph: Graph) -> tuple[Component, ...]:
    """The parts of a well-formed graph that share only what they load."""
    nodes = {node.name: node for node in graph.nodes}
    ends = [*graph.outputs, *(node for _, node in graph.gradients if node is not None)]
    needed = {end: _ancestors(end, nodes) for end in ends}
    for output, upstream in zip(graph.outputs, graph.upstream, strict=True):
        needed[output] |= {upstream} if upstream is not None else set()
    groups: list[set[str]] = []
    for end in dict.fromkeys(ends):
        members = {name for name in needed[end] if not _is_shareable(name, nodes)} | {end}
        joined = [group for group in groups if group & members]
        groups = [group for group in groups if group not in joined]
        groups.append(set().union(members, *joined))
    first = [min((i for i, node in enumerate(graph.outputs) if node in group), default=len(ends)) for group in groups]
    ordered = [group for _, group in sorted(zip(first, groups, strict=True), key=lambda pair: pair[0])]
    if any(not group & set(graph.outputs) for group in groups):
        return ()  # a gradient that follows from no output
    parts = [_component(problem, graph, group, needed) for group in ordered]
    if parts:
        bounded = with_bounds(problem, graph, parts[0].problem, parts[0].graph)
        parts[0] = Component(*bounded, parts[0].outputs)
    return tuple(parts)


def _ancestors(end: str, nodes: dict[str, Node]) -> set[str]:
    ancestors: set[str] = set()
    waiting = [end]
    while waiting:
        name = waiting.pop()
        if name not in ancestors:
            ancestors.add(name)
            waiting.extend(nodes[name].operands)
    return ancestors


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
    texts = {name for node in kept for text in texts_of((*node.args, *node.meta.shape)) for name in names_in(text)}
    rules = tuple(rule for rule in graph.multiples if texts & {*rule.scalars} and rule.dimension in texts)
    texts |= {name for rule in rules for name in rule.scalars}
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
        bounds=(),
        output_dtypes=tuple(graph.output_dtypes[place] for place in places) if graph.output_dtypes else (),
    )
    return Component(own, part, places)


TENSORS, VECTORS = ("x", "z", "u", "v"), ("w", "b", "s", "t")  # what inputs of most dimensions are called, and others


@dataclass(frozen=True)
class CommonNames:
    """Names of inputs (by the problem's names) and outputs; ``group`` distinguishes parts of different structure."""

    group: int
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]


def common_names(components: Sequence[Component]) -> list[CommonNames | None]:
    """Names for each part that looks like another one, None for a part that looks like none."""
    kinds = [_kind(part) for part in components]
    distinct = list(dict.fromkeys(kinds))
    pairs = list(zip(components, kinds, strict=True))
    return [_names(distinct.index(kind), [p for p, other in pairs if other == kind], part) for part, kind in pairs]


def _kind(part: Component) -> tuple[object, ...]:
    inputs = tuple(replace(spec, name="", dims=("",) * len(spec.dims)) for spec in part.problem.inputs)
    operators = tuple(node.op for node in part.graph.nodes)
    return inputs, operators, len(part.outputs), part.problem.scalars, part.graph.specialised


def _names(group: int, parts: list[Component], part: Component) -> CommonNames | None:
    if len(parts) < 2:
        return None
    rows = [[spec.name for spec in other.problem.inputs] for other in parts]
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


EACH = "each"  # what kernels are called that several programs start
COMPARED = SourceStyle("", "forward", "backward", section=True)


@dataclass(frozen=True)
class LauncherCall:
    """A call of a launcher in one of the module's two functions."""

    results: tuple[str, ...]
    function: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Member:
    """One of the programs: its design, and what its functions are called.

    ``table`` has the module's names for its functions' tensors and scalars; ``gradients`` what its backward function gives for
    each input, by the module's names. A step of a series has one function, which the pass ``step_of`` calls.
    """

    design: ProgramDesign
    forward: str
    backward: str
    table: Mapping[str, str]
    gradients: Mapping[str, str]
    step_of: Pass | None = None

    def call(self, timed: Pass) -> LauncherCall | None:
        """How a pass calls the program, None where it does not."""
        if timed is Pass.forward or self.step_of is timed:
            results, arguments = forward_results(self.design), parameters(self.design)
            own = tuple(self.table[name] for name in results), self.forward, tuple(self.table[n] for n in arguments)
            return None if self.step_of not in {None, timed} else LauncherCall(*own)
        if self.step_of is not None or not self.gradients:
            return None
        taken = tuple(self.table[name] for name in backward_arguments(self.design))
        return LauncherCall(tuple(self.gradients.values()), self.backward, taken)


@dataclass(frozen=True)
class Programs:
    """The programs of a problem, usually one, and the names of the module."""

    problem: Problem
    graph: Graph
    names: TensorNames
    members: tuple[Member, ...]
    gradients: Mapping[str, str]  # what backward gives for each input that has a gradient, by the problem's name

    @property
    def designs(self) -> list[ProgramDesign]:
        """The design of each program."""
        return [member.design for member in self.members]

    @property
    def parameters(self) -> list[str]:
        """The reference's parameters by their names in the module."""
        table = {**self.names.tensors, **self.names.scalars}
        return [table[name] for name in self.problem.parameters]

    def calls(self, timed: Pass) -> list[LauncherCall]:
        """The calls of a pass in order."""
        return [call for member in self.members if (call := member.call(timed)) is not None]

    @property
    def saved(self) -> list[str]:
        """What forward makes for backward besides the outputs."""
        made = [name for call in self.calls(Pass.forward) for name in call.results if name not in self.names.outputs]
        read = {name for call in self.calls(Pass.backward) for name in call.arguments}
        return [name for name in dict.fromkeys(made) if name in read]

    @property
    def upstream(self) -> list[str]:
        """The upstream gradient of each output; one that nothing needs begins with an underscore."""
        return [
            self.names.tensors[node] if node is not None else f"_d{output}"
            for node, output in zip(self.graph.upstream, self.names.outputs, strict=True)
        ]

    @property
    def backward_arguments(self) -> list[str]:
        """What backward takes: upstream gradients first, each once."""
        every: list[str] = []
        made: set[str] = set()
        for call in self.calls(Pass.backward):
            every += [name for name in call.arguments if name not in made]
            made.update(call.results)
        every += [text for text in self.gradients.values() if text not in made]
        return list(dict.fromkeys([*(name for name in self.upstream if name in every), *every]))

    @property
    def backward_results(self) -> list[str]:
        """The tensors that backward makes; an upstream gradient that is handed on is none of them."""
        return [text for text in dict.fromkeys(self.gradients.values()) if text not in self.upstream]


def whole(brief: Brief) -> Programs:
    """The problem as one program.

    Raises:
        CannotCompileError: it is beyond what the schedules express.
    """
    problem, graph = brief.problem, brief.graph
    design = build_design(
        brief.name,
        problem,
        graph,
        brief.style.tunable,
        brief.may_overwrite,
        sizes=brief.sizes,
        target=brief.style.target,
    )
    names = design.names
    own = (*names.tensors.values(), *names.scalars.values(), *names.outputs)
    gradients = {name: gradient_text(design, name) for name, _ in design.program.gradients}
    style = brief.style
    member = Member(
        design, style.forward_function, style.backward_function, dict(zip(own, own, strict=True)), gradients
    )
    return Programs(problem, graph, names, (member,), gradients)


def in_parts(brief: Brief) -> Programs:
    """The problem as a program for each independent part; parts of the same structure share kernels and functions.

    Raises:
        CannotCompileError: it has one part, or a part is beyond what the schedules express.
    """
    problem, graph = brief.problem, brief.graph
    require_well_formed(problem, graph)
    components = components_of(problem, graph)
    if len(components) < 2:
        raise CannotCompileError("every part of the problem shares computation with the others")
    names = TensorNames(problem, graph)
    for node, text in zip(graph.outputs, names.outputs, strict=True):
        names.tensors.setdefault(node, text)
    given = common_names(components)

    def build(index: int, common: CommonNames | None) -> tuple[str, ProgramDesign]:
        part = components[index]
        others = {name for other in components if other is not part for name in other.graph.inputs}
        # A tensor that another program reads must last until then.
        allowed = tuple(name for name in part.may_overwrite(brief.may_overwrite) if name not in others)
        outputs = tuple(names.outputs[place] for place in part.outputs)
        stem = next((n for n in part.graph.inputs if n not in others), str(index))
        inputs: tuple[tuple[str, str], ...] = ()
        if common is not None:
            stem, inputs, outputs = EACH + (f"_{common.group}" if common.group else ""), common.inputs, common.outputs
        own, tunable = f"{brief.name}_{stem}", brief.style.tunable
        return own, build_design(
            own, part.problem, part.graph, tunable, allowed, outputs, inputs, brief.sizes, target=brief.style.target
        )

    built = [build(index, common) for index, common in enumerate(given)]
    for group in {common.group for common in given if common is not None}:
        places = [index for index, common in enumerate(given) if common is not None and common.group == group]
        if len({_text_of(built[index][1]) for index in places}) > 1:
            for index in places:
                built[index] = build(index, None)
    members = []
    for part, (own, design) in zip(components, built, strict=True):
        gradients = {name: names.gradients[name] for name, _ in design.program.gradients}
        table = _table(design, names, part.outputs)
        members.append(Member(design, f"_{own}_forward", f"_{own}_backward", table, gradients))
    every = {name: text for member in members for name, text in member.gradients.items()}
    return Programs(problem, graph, names, tuple(members), every)


def in_series(
    brief: Brief, narrow: frozenset[str], apart: bool | None = None, known: dict[tuple[object, ...], bool] | None = None
) -> Programs:
    """The problem as a series of steps, those of forward first; ``narrow`` as ``steps_of`` takes it.

    ``known``: which steps without chains fit, filled here: other forms of the graph have most of them too. ``apart``: chained
    products as ``with_chains`` finds them; None: every product is stored.

    Raises:
        CannotCompileError: a step is beyond what the schedules express, or no products are to be chained.
    """
    problem, graph = brief.problem, brief.graph
    require_well_formed(problem, graph)
    chains: dict[str, Chain] = {}
    if apart is not None:
        graph, chains = with_chains(graph, apart=apart)
        if not chains:
            raise CannotCompileError("`matmul` meets no softmax of another", "matmul")
    fitting = {} if known is None or chains else known

    def fits(step: SeriesStep) -> bool:
        key = (step.timed, step.graph.outputs, step.graph.nodes)
        if key not in fitting:
            try:
                design = build_design(
                    brief.name, step.problem, step.graph, step_of=step.timed, target=brief.style.target
                )
                launchers(design, COMPARED)
                fitting[key] = not _reduces_again(design.program)
            except CannotCompileError:
                fitting[key] = False
        return fitting[key]

    steps = steps_of(problem, graph, narrow, fits, chains)
    kept = kept_numbers(chains)
    names = TensorNames(problem, graph)
    texts = dict(zip(reversed(graph.outputs), reversed(names.outputs), strict=True))
    texts |= {node: text for node, text in names.tensors.items() if node not in texts}
    for name, node in graph.gradients:
        if node is not None:
            texts.setdefault(node, names.gradients[name])
    for step in steps:
        for node in step.graph.outputs:
            if node not in texts:
                texts[node] = names.free(kept.get(node) or _stored_name(step))
    members = _members_of(brief, steps, texts, names)
    gradients = {name: texts[node] for name, node in graph.gradients if node is not None}
    return Programs(problem, graph, names, tuple(members), gradients)


def _reduces_again(program: ValueProgram) -> bool:
    """Whether a row is reduced anew for several rows of what follows, such as its least plus a vector along another dimension."""
    domain, results = program.domain, [*program.outputs, *(result for _, result in program.gradients)]
    for value in topological([result.value for result in results]):
        if value.op == "over_cols":
            read = {str(load.datum) for load in topological([value]) if load.op == "load"} & domain.shapes.keys()
            if read and {*domain.row_axes} - {axis for name in read for axis in domain.rows_of(name)}:
                return True
    return False


def _members_of(
    brief: Brief, steps: Sequence[SeriesStep], texts: Mapping[str, str], names: TensorNames
) -> list[Member]:
    """The programs of steps; those that compute the same share their kernels. ``texts`` are the names of nodes in the module."""
    members: list[Member] = []
    first: dict[tuple[object, ...], list[_StepNames]] = {}  # those whose kernels later steps of the same kind may share

    def build(step: SeriesStep, given: _StepNames) -> ProgramDesign:
        tunable, sizes, target = brief.style.tunable, brief.sizes, brief.style.target
        inputs = tuple(zip(step.tensors, given.inputs, strict=True))
        own, part = given.own, (step.problem, step.graph)
        return build_design(own, *part, tunable, (), given.outputs, inputs, sizes, step.timed, target)

    for step in steps:
        outputs = tuple(texts[node] for node in step.graph.outputs)
        alone = sum(other.timed is step.timed for other in steps) == 1
        label = step.timed.value if alone else f"{step.timed.value}_{outputs[0]}"
        launcher = f"_{brief.name}_launch_{outputs[0]}"
        if any(member.forward == launcher for member in members):  # what forward computed and did not keep
            launcher = f"_{brief.name}_launch_{label}"
        own = _StepNames(f"{brief.name}_{label}", launcher, outputs, tuple(texts[node] for node in step.tensors))
        design, named = build(step, own), own
        for other in first.setdefault(_kind_of_step(step), []):
            shared = build(step, other)
            if _text_of(shared) == other.text:
                design, named = shared, other
                break
        else:
            first[_kind_of_step(step)].append(replace(own, text=_text_of(design)))
        table = dict(zip(design.names.outputs, outputs, strict=True))
        inputs = zip(step.tensors, own.inputs, strict=True)
        table |= {design.names.tensors[node]: text for node, text in inputs}
        table |= {text: names.scalars[name] for name, text in design.names.scalars.items()}
        members.append(Member(design, named.launcher, "", table, {}, step.timed))
    return members


@dataclass(frozen=True)
class _StepNames:
    """What a step's kernels, launcher and tensors are called, and what comes of it; ``own`` begins the kernels' names."""

    own: str
    launcher: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    text: tuple[str, ...] = ()


def _kind_of_step(step: SeriesStep) -> tuple[object, ...]:
    inputs = tuple((spec.dtype, len(spec.dims)) for spec in step.problem.inputs)
    nodes = tuple((node.op, node.meta) for node in step.graph.nodes)
    return step.timed, inputs, nodes, step.graph.output_dtypes


def _stored_name(step: SeriesStep) -> str:
    """What is stored between steps: z is a product, h what is computed between products; dz and dh are their gradients."""
    from_product = any(node.op == "matmul" for node in step.graph.nodes)
    return ("z" if from_product else "h") if step.timed is Pass.forward else "dh" if from_product else "dz"


def _text_of(design: ProgramDesign) -> tuple[str, ...]:
    kernels = [kernel.source for schedule in design.passes for kernel in schedule.kernels]
    return (*kernels, *launchers(design, COMPARED))


def _table(design: ProgramDesign, names: TensorNames, places: tuple[int, ...]) -> dict[str, str]:
    table = {text: names.scalars[name] for name, text in design.names.scalars.items()}
    # A tensor may be two of the outputs, each of which has a name.
    table |= {text: names.outputs[place] for text, place in zip(design.names.outputs, places, strict=True)}
    for key, text in design.names.tensors.items():
        if key in names.tensors:
            table[text] = names.tensors[key]
    for name, text in design.names.gradients.items():
        if name in names.gradients:
            table[text] = names.gradients[name]
    for key, _ in design.program.saved:
        table[design.names.tensors[key]] = names.free(design.names.tensors[key])
    return table
