"""A problem with products or windows as a series of steps, each a graph that one kernel computes. Pure.

A step is a product with what follows from it element by element, or whatever lies between products, taken apart at reductions
where one kernel does not express it. What a later step needs is stored by the step that computes it, but for what is cheap to
compute again from tensors that are stored anyway. Windows of a tensor overlap, so that they are read from memory and never stored:
a product takes them as an operand, or a step reduces them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpu_runner.contracts import Graph, InputSpec, Pass, Problem
from gpu_runner.contracts.graph import Arg, Dim, Expr, Node, NodeRef, TensorMeta
from workers.authors.compiler.attention import CHAINED, EXACT, KEPT, VIEWS, Chain
from workers.authors.compiler.domain import nodes_behind
from workers.authors.compiler.graph import (
    POINTWISE,
    REDUCTIONS,
    SCANS,
    CannotCompileError,
    Sizes,
    names_in,
    texts_of,
    with_bounds,
)
from workers.authors.compiler.names import AGAIN
from workers.authors.compiler.rounding import AsStored

PRODUCTS = frozenset({"matmul", CHAINED})
# What a product may compute for each block that it loads, again and again: no more than an instruction or two.
CHEAP = frozenset(
    {"add", "sub", "mul", "neg", "abs", "relu", "maximum", "minimum", "where", "logical_not"}
) | frozenset({"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or"})


@dataclass(frozen=True)
class SeriesStep:
    """A graph without gradients whose outputs later steps, or the caller, need; ``tensors`` are the nodes of its inputs."""

    timed: Pass
    problem: Problem
    graph: Graph

    @property
    def tensors(self) -> tuple[str, ...]:
        """The nodes of the whole graph that the step takes, each once."""
        return tuple(name for name in self.graph.inputs if AGAIN not in name)


def takes_steps(graph: Graph) -> bool:
    """Whether a graph multiplies matrices, or takes windows."""
    return any(node.op in {"matmul", "windows"} for node in graph.nodes)


def virtual_nodes(graph: Graph) -> frozenset[str]:
    """The windows of tensors, and what is computed of them element by element."""
    found: set[str] = set()
    for node in graph.nodes:
        of_windows = any(operand in found for operand in node.operands)
        if node.op == "windows" or (of_windows and node.op in POINTWISE | VIEWS):
            found.add(node.name)
    return frozenset(found)


def kept_numbers(chains: Mapping[str, Chain]) -> dict[str, str]:
    """What chains hand on in float32, numbers of each row and exact results, with what it is called."""
    leaves = {leaf for chain in chains.values() for leaf in chain.leaves.values()}
    exact = {name: EXACT.strip() for name in chains if name.endswith(EXACT)}
    return exact | {node: KEPT[role] for node, role in sorted(leaves) if role in KEPT}


def without_vectors(graph: Graph) -> Graph:
    """The graph with products of a matrix and a vector, or of two vectors, as products of elements and their sums.

    Such a product reads each element of the matrix once, so that it waits for memory and has no use for ``tl.dot``.
    """
    shapes = {node.name: node.meta.shape for node in graph.nodes}
    nodes: list[Node] = []
    virtual = virtual_nodes(graph)
    for node in graph.nodes:
        whole = node.op == "matmul" and len(node.operands) == 2
        nodes += _elementwise(node, shapes, virtual) if whole else [node]
    return replace(graph, nodes=tuple(nodes))


def _elementwise(node: Node, shapes: Mapping[str, tuple[Dim, ...]], virtual: frozenset[str]) -> list[Node]:
    left, right = node.operands
    first, second = shapes.get(left, ()), shapes.get(right, ())
    if min(len(first), len(second)) < 2 or 1 not in (*first[-2:], *second[-2:]):
        return [node]
    if first[-1] == 1 and virtual.isdisjoint((left, right)):
        return [replace(node, op="mul")]
    if first[-1] == 1:  # windows of one tap are reduced as others are
        product, single, shape = f"{node.name} elements", f"{node.name} taps", node.meta.shape
        return [
            replace(node, name=product, op="mul"),
            Node(single, "reshape", (NodeRef(product),), TensorMeta((*shape, 1), node.meta.dtype)),
            replace(node, op="sum", args=(NodeRef(single), (len(shape),), False)),
        ]
    # A column becomes a row, or a row a column, so that it lies along what is summed over.
    turned, other, shape = (right, left, second) if second[-1] == 1 else (left, right, first)
    places = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    whole = (*node.meta.shape[:-2], *(shapes[other][-2:]))
    along = len(whole) - (1 if turned == right else 2)
    turn, product = f"{node.name} turned", f"{node.name} elements"
    dims = tuple(shape[place] for place in places)
    return [
        Node(turn, "permute", (NodeRef(turned), places), TensorMeta(dims, node.meta.dtype)),
        Node(product, "mul", (NodeRef(other), NodeRef(turn)), TensorMeta(whole, node.meta.dtype)),
        replace(node, op="sum", args=(NodeRef(product), (along,), True)),
    ]


MOST_JOINED = 12  # steps, of which pairs are tried
MOST_LOOKED_AT = 150_000  # nodes of all ways to take steps apart: some seconds


@dataclass(frozen=True)
class Breaks:
    """Where steps end besides at products: some nodes are computed in a later turn, or after their product is stored."""

    turns: Mapping[str, int] = field(default_factory=dict)
    late: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()  # not computed again in a later turn, although that would be cheap


def steps_of(
    problem: Problem,
    graph: Graph,
    narrow: frozenset[str],
    fits: Callable[[SeriesStep], bool] = lambda _: True,
    chains: Mapping[str, Chain] | None = None,
) -> list[SeriesStep]:
    """The steps of both passes in order, taken apart until ``fits`` holds of all, as far as that goes.

    ``narrow`` are the nodes that have the call's dtype in eager mode; none where that is not known. ``chains`` are those of the
    graph's ``chained`` nodes.
    """
    steps = _rounded_again(_steps_that_fit(problem, graph, narrow, fits, chains or {}))
    bounded = with_bounds(problem, graph, steps[0].problem, steps[0].graph)
    return [SeriesStep(steps[0].timed, *bounded), *steps[1:]]


def _steps_that_fit(
    problem: Problem,
    graph: Graph,
    narrow: frozenset[str],
    fits: Callable[[SeriesStep], bool],
    chains: Mapping[str, Chain],
) -> list[SeriesStep]:
    breaks, looked_at, division = Breaks(), 0, Division.of(graph, chains)

    def cut(breaks: Breaks) -> list[SeriesStep]:
        return StepCutter(problem, graph, narrow, timed, available, breaks, chains).steps(ends)

    done: list[SeriesStep] = []
    for timed in (Pass.forward, Pass.backward):
        forward = timed is Pass.forward
        ends = division.wanted if forward else division.ends
        dtypes = _dtypes(done)
        available = {name: dtypes.get(name) for name in (division.given if forward else division.kept)}
        steps = cut(breaks)
        while True:
            failing = [step for step in steps if not fits(step)]
            if not failing or any(map(_moves_inside, failing)) or looked_at > MOST_LOOKED_AT:
                break
            broken, form = failing[0], _form(failing[0], breaks)
            alike = [step for step in failing[1:] if _form(step, breaks) == form]
            for own in _promising_first(broken, _further(broken, breaks), narrow, fits):
                looked_at += len(broken.graph.nodes)
                if own is None:
                    continue
                looked_at += len(graph.nodes)
                other = _for_all(own, breaks, broken, alike)
                again = cut(other)
                early = [step for step in again if step not in steps]
                if early and fits(early[0]):
                    steps, breaks = again, other
                    break
                if looked_at > MOST_LOOKED_AT:
                    break
            else:
                break  # whoever compiles them says why one does not fit
        if len(steps) <= MOST_JOINED and all(map(fits, steps)):
            steps, breaks = _joined(steps, breaks, cut, fits)
        done += steps
    return done


def _joined(
    steps: list[SeriesStep],
    breaks: Breaks,
    cut: Callable[[Breaks], list[SeriesStep]],
    fits: Callable[[SeriesStep], bool],
) -> tuple[list[SeriesStep], Breaks]:
    """The steps, those as one that read the same and fit together: taken apart for one node, others may have gone with it."""
    for place, later in [*enumerate(steps)][:0:-1]:
        own = {node.name for node in later.graph.nodes} & breaks.turns.keys()
        for earlier in steps[:place] if own else ():
            if not {*earlier.tensors, *earlier.graph.outputs}.intersection(later.tensors):
                continue
            turn = max(breaks.turns.get(node.name, 0) for node in earlier.graph.nodes)
            other = replace(breaks, turns={**breaks.turns, **dict.fromkeys(own, turn)})
            fewer = cut(other)
            if len(fewer) < len(steps) and all(fits(step) for step in fewer if step not in steps):
                return _joined(fewer, other, cut, fits)
    return steps, breaks


def _dtypes(steps: Sequence[SeriesStep]) -> dict[str, str]:
    """In which dtypes steps store their results where the call's is bfloat16."""
    graphs = [step.graph for step in steps]
    return {n: seen for graph in graphs for n, seen in zip(graph.outputs, graph.output_dtypes, strict=True)}


def _promising_first(
    step: SeriesStep, ways: Iterator[Breaks], narrow: frozenset[str], fits: Callable[[SeriesStep], bool]
) -> Iterator[Breaks | None]:
    """Ways to take a step apart, those first whose first part fits when the step is cut alone; None for what is put off.

    To cut a step alone takes a time that does not grow with the model. What holds of it may not hold where others are cut with it.
    """
    put_off: list[Breaks] = []
    alone = not any(node.op in PRODUCTS | {"windows"} for node in step.graph.nodes)
    own = {node.name for node in step.graph.nodes}
    for breaks in ways:
        turns = {name: turn for name, turn in breaks.turns.items() if name in own}
        inside = replace(breaks, turns=turns)
        given = dict.fromkeys(step.graph.inputs)
        cutter = StepCutter(step.problem, step.graph, narrow, step.timed, given, inside, {}) if alone else None
        if cutter is None or fits(cutter.steps(step.graph.outputs)[0]):
            yield breaks
        else:
            put_off.append(breaks)
            yield None
    yield from put_off


def _moves_inside(step: SeriesStep) -> bool:
    """Whether a step cuts or joins along a dimension that is not the last, which no kernel does however it is taken apart."""
    moved = (node for node in step.graph.nodes if node.op in {"slice", "cat"})
    return any(isinstance(n.args[1], int) and n.args[1] % len(n.meta.shape) != len(n.meta.shape) - 1 for n in moved)


def _form(step: SeriesStep, breaks: Breaks) -> list[tuple[object, ...]]:
    """What a step computes, whatever its tensors are called and however large they are, and in which turns."""
    places = {node.name: place for place, node in enumerate(step.graph.nodes)}
    return [
        (
            node.op,
            tuple(places[operand] for operand in node.operands),
            node.args[1:2] if node.op in REDUCTIONS else (),
            breaks.turns.get(node.name),
        )
        for node in step.graph.nodes
    ]


def _for_all(other: Breaks, breaks: Breaks, broken: SeriesStep, alike: Sequence[SeriesStep]) -> Breaks:
    """What ``other`` changes of ``breaks`` for one step, for those of its form too: a model repeats its layers."""
    turns = {name: turn for name, turn in other.turns.items() if breaks.turns.get(name) != turn}
    late, stored = other.late - breaks.late, other.stored - breaks.stored
    for step in alike:
        pairs = zip(broken.graph.nodes, step.graph.nodes, strict=True)
        table = {mine.name: its.name for mine, its in pairs}
        other = replace(
            other,
            turns={**other.turns, **{table[name]: turn for name, turn in turns.items() if name in table}},
            late=other.late | {table[name] for name in late if name in table},
            stored=other.stored | {table[name] for name in stored if name in table},
        )
    return other


def _rounded_again(steps: list[SeriesStep]) -> list[SeriesStep]:
    """The steps, in which what another step stored is rounded as it was where it is computed again.

    Else a mean of what was stored would be subtracted from what was not. What it is computed from is rounded where that is stored.
    """
    ends = [zip(step.graph.outputs, step.graph.output_dtypes, strict=True) for step in steps]
    stored = {name for own in ends for name, seen in own if seen == "bfloat16"}
    computed = [(step, node) for step in steps for node in step.graph.nodes if node.op != "input"]
    again = {
        name
        for step, node in computed
        if (name := node.name.partition(AGAIN)[0]) in stored and node.name not in step.graph.outputs
    }

    def rounded(graph: Graph) -> Graph:
        behind = {node.name for node in nodes_behind(graph, [name for name in graph.outputs if name in again])}
        own = again | (behind & stored & {*graph.outputs})
        known = {rounding.node for rounding in graph.rounded}
        nodes = [n for n in graph.nodes if n.op != "input" and n.meta.dtype == "float32" and n.name not in known]
        more = tuple(AsStored(n.name, ()) for n in nodes if n.name.partition(AGAIN)[0] in own)
        return replace(graph, rounded=(*graph.rounded, *more))

    return [replace(step, graph=rounded(step.graph)) for step in steps]


def _further(step: SeriesStep, breaks: Breaks) -> Iterator[Breaks]:
    """Ways to take a step apart, those that leave most together first.

    What follows a product is computed after it is stored; reductions and what they need go before what needs them; at last what
    one reduces is stored before.
    """
    own = {node.name: node for node in step.graph.nodes if node.operands and AGAIN not in node.name}
    products = {node.name for node in own.values() if node.op == "matmul"}
    if products:
        after = {node.name for node in nodes_behind(step.graph, step.graph.outputs, beyond_products=False)}
        late = frozenset(after & own.keys()) - products - breaks.late
        if late:
            yield replace(breaks, late=breaks.late | late)
        return
    turn = 1 + max(breaks.turns.get(name, 0) for name in own)
    _, *others = _unconnected(own)
    if others:
        yield replace(breaks, turns={**breaks.turns, **{name: turn for other in others for name in other}})
    levels: dict[str, int] = {}
    for name, node in own.items():
        below = max((levels.get(operand, 0) for operand in node.operands), default=0)
        levels[name] = below + (node.op in REDUCTIONS | SCANS)
    reduced = [name for name, node in own.items() if node.op in REDUCTIONS | SCANS]
    parts = [[name for name in reduced if levels[name] <= most] for most in range(max(levels.values()), 0, -1)]
    parts += [[name] for name in reversed(reduced)] + _alike(step, own, reduced)
    parts.sort(key=len, reverse=True)
    tried: set[frozenset[str]] = set()
    for early in (early for part in parts for early in _early(step, own, part)):
        later = {name for name in own if levels[name] and name not in early}
        if early not in tried and later:
            tried.add(early)
            yield replace(breaks, turns={**breaks.turns, **dict.fromkeys(later, turn)})
    nodes = {node.name: node for node in step.graph.nodes}
    ends = [_viewed(own[name].operands[0], nodes) for name in reversed(reduced)]
    smallest_first = sorted((end for end in (*ends, *_spread(own)) if end in own), key=lambda end: len(_dims(own[end])))
    for operand in dict.fromkeys(smallest_first):
        early = frozenset(node.name for node in nodes_behind(step.graph, [operand]) if node.name in own)
        later = {other for other in own if levels[other] and other not in early} or own.keys() - early
        stored = breaks.stored | {operand}
        yield replace(breaks, turns={**breaks.turns, **dict.fromkeys(later, turn)}, stored=stored)
        # In a turn of its own it is computed apart from what else precedes the step.
        yield replace(breaks, turns={**breaks.turns, **dict.fromkeys(later, turn + 1), operand: turn}, stored=stored)


def _unconnected(own: Mapping[str, Node]) -> list[set[str]]:
    """The nodes in parts of one shape each that share nothing but views of what the step is handed."""
    parts: list[tuple[set[str], tuple[Dim, ...]]] = []
    handed: set[str] = set()
    for name, node in own.items():
        operands = {operand for operand in node.operands if operand in own and operand not in handed}
        if node.op in VIEWS and not operands:
            handed.add(name)
            continue
        joined = [part for part in parts if part[0] & operands or part[1] == _dims(node)]
        members = set.union({name}, *(part[0] for part in joined))
        parts = [*(part for part in parts if part not in joined), (members, _dims(node))]
    return [members for members, _ in parts] or [handed]


def _spread(own: Mapping[str, Node]) -> Iterator[str]:
    """What is repeated along further dimensions to meet another tensor, and what comes of it, the last first."""
    for name, node in reversed([*own.items()]):
        if node.op in POINTWISE:
            operands = [operand for operand in node.operands if operand in own]
            smaller = [other for other in operands if _dims(own[other]) != _dims(node) or own[other].op == "expand"]
            yield from (other for other in smaller if own[other].op != "reshape")
            yield from (operand for other in smaller if own[other].op == "reshape" for operand in own[other].operands)
            if smaller or len(operands) < len(node.operands):
                yield name


def _alike(step: SeriesStep, own: Mapping[str, Node], reduced: Sequence[str]) -> list[list[str]]:
    """The reductions that run over the same dimensions of what has the same shape, and need no others."""
    shapes = {node.name: node.meta.shape for node in step.graph.nodes}
    kinds: dict[str, tuple[object, ...]] = {}
    behind: dict[str, set[str]] = {}
    for name, node in own.items():
        behind[name] = set().union(*(behind.get(operand, set()) for operand in node.operands))
        if name in reduced:
            shape = shapes[node.operands[0]]
            kinds[name] = (node.args[1:2], shape)
            behind[name] = behind[name] | {name}
    found: dict[tuple[object, ...], list[str]] = {}
    for name in reduced:
        if all(kinds[other] == kinds[name] for other in behind[name]):
            found.setdefault(kinds[name], []).append(name)
    return list(found.values())


def _early(step: SeriesStep, own: Mapping[str, Node], reduced: Sequence[str]) -> Iterator[frozenset[str]]:
    """What some reductions need, first with what follows from them and is no larger, such as a deviation from a variance."""
    needed = frozenset(node.name for node in nodes_behind(step.graph, reduced) if node.name in own)
    shapes = {_dims(own[name]) for name in reduced}
    found = set(reduced)
    for name, node in own.items():
        operands = [operand for operand in node.operands if operand in own]
        if operands and node.op in POINTWISE | VIEWS and _dims(node) in shapes and found.issuperset(operands):
            found.add(name)
    yield needed | found
    yield needed


def _dims(node: Node) -> tuple[Dim, ...]:
    return tuple(dim for dim in node.meta.shape if dim != 1)


@dataclass(frozen=True)
class Division:
    """What each pass of a graph computes: ``wanted`` of forward, of which it leaves ``kept``, and ``ends`` of backward."""

    given: frozenset[str]
    wanted: tuple[str, ...]
    kept: frozenset[str]
    ends: tuple[str, ...]

    @staticmethod
    def of(graph: Graph, chains: Mapping[str, Chain]) -> Division:
        """The division of a graph, whatever its steps are."""
        nodes = {node.name: node for node in graph.nodes}
        given = frozenset(node.name for node in graph.nodes if node.op in {"input", "upstream"})
        ends = [node for _, node in graph.gradients if node is not None]
        forward = {node.name for node in nodes_behind(graph, graph.outputs)}
        forward |= {name for name, chain in chains.items() if chain.leader in forward}
        # Which tap is the largest is found together with it.
        forward |= {n.name for n in graph.nodes if n.op == "argmax" and n.operands[0] in forward}
        saved = _saved(graph, nodes, forward, ends) if ends else ()
        kept = frozenset({*given, *graph.outputs, *saved}) - _compared(graph, forward)
        return Division(given, (*graph.outputs, *saved), kept, tuple(ends))


def _compared(graph: Graph, forward: set[str]) -> set[str]:
    """The largest and least elements that backward looks for: rounded, as they are stored, none may be equal."""
    looked_for = {
        _viewed(operand, {node.name: node for node in graph.nodes})
        for node in graph.nodes
        if node.op == "eq" and node.name not in forward
        for operand in node.operands
    }
    return {node.name for node in graph.nodes if node.op in {"amax", "amin"} and node.name in looked_for & forward}


def _saved(graph: Graph, nodes: dict[str, Node], forward: set[str], ends: list[str]) -> tuple[str, ...]:
    """What backward reads of forward and cannot compute element by element from inputs, outputs and what is kept already."""
    backward = [node for node in nodes_behind(graph, ends) if node.name not in forward]
    read = {operand for node in backward for operand in node.operands} | set(ends)
    compared = _compared(graph, forward)
    backward += [node for node in graph.nodes if node.name in compared]
    read |= {name for node in backward for name in node.operands}
    windowed = {name for node in backward if node.op == "windows" for name in node.operands}
    known = {*graph.inputs, *graph.outputs} - compared
    read = _from_stored(nodes, forward, read, known)
    kept: list[str] = []
    skipped = virtual_nodes(graph) | compared
    views: dict[str, list[set[str]]] = {}  # what is read of a node through views, by the node
    for name in read:
        chain = _chain(name, nodes)
        views.setdefault(chain[-1], []).append({*chain})
    for node in graph.nodes:
        if node.name in known or node.name not in forward or node.name in skipped:
            continue
        again = node.op in POINTWISE | VIEWS | {"full", "arange"} and node.name not in windowed
        if again and all(operand in known for operand in node.operands):
            known.add(node.name)
        elif node.name in read or node.name in windowed or any(map(known.isdisjoint, views.get(node.name, ()))):
            kept.append(node.name)
            known.add(node.name)
    return tuple(kept)


def _from_stored(nodes: dict[str, Node], forward: set[str], read: set[str], known: set[str]) -> set[str]:
    """What is read; for what comes of a product that is stored and of numbers of its rows, these.

    So backward of a loss has the product's result and two numbers of each row, and no second tensor of its size.
    """
    follows: set[str] = set()  # a product, element by element
    stored: set[str] = set()  # of these, what is reduced
    factors: set[str] = set()  # what products take is stored in any case
    for node in nodes.values():
        operands = set(node.operands)
        if node.op in PRODUCTS:
            factors |= {_viewed(name, nodes) for name in operands}
        if node.op in PRODUCTS or (node.op in POINTWISE and operands & follows and not operands & stored):
            follows.add(node.name)
        elif node.op in REDUCTIONS and node.name in forward:
            stored |= operands & follows

    def ends(name: str) -> set[str]:
        node = nodes[name]
        if name in stored | known or node.op not in POINTWISE | VIEWS:
            return {name}
        return set().union(*(ends(operand) for operand in node.operands))

    found: set[str] = set()
    for name in read:
        own = ends(name) if name in forward and name not in factors else {name}
        numbers = [nodes[end].op in REDUCTIONS for end in own - stored]
        found |= own if own & stored and numbers and all(numbers) else {name}
    return found


def _viewed(name: str, nodes: Mapping[str, Node]) -> str:
    """What a node is a view of, itself where it is none."""
    return _chain(name, nodes)[-1]


def _held_against(graph: Graph, nodes: Mapping[str, Node]) -> set[str]:
    """The reductions whose results are looked for among what they reduce: rounded they would equal none of it."""
    compared = {operand for node in graph.nodes if node.op in {"eq", "ne"} for operand in node.operands}
    ends = {link for name in compared for link in _chain(name, nodes)}
    return {name for name in ends if nodes[name].op in {"amax", "amin"}}


def _chain(name: str, nodes: Mapping[str, Node]) -> list[str]:
    """A node and what it is a view of, one after the other."""
    chain = [name]
    while nodes[chain[-1]].op in VIEWS and (operands := nodes[chain[-1]].operands):
        chain.append(operands[0])
    return chain


class StepCutter:
    """Cuts what a pass computes into steps.

    The rank of a node is even where it lies between products and odd where it follows from one, and has a turn, which grows where
    a step between products is taken apart; a step has nodes of one rank and turn. ``available`` are the tensors that lie in memory,
    with the dtype in which another pass stored them.
    """

    def __init__(
        self,
        problem: Problem,
        graph: Graph,
        narrow: frozenset[str],
        timed: Pass,
        available: Mapping[str, str | None],
        breaks: Breaks,
        chains: Mapping[str, Chain],
    ) -> None:
        self.problem, self.graph, self.narrow, self.timed = problem, graph, narrow, timed
        self.available, self.chains = available, chains
        self.nodes = {node.name: node for node in graph.nodes}
        self.wide = frozenset((*kept_numbers(chains), *_held_against(graph, self.nodes)))
        self._turns, self._stored = breaks.turns, breaks.stored
        self._users_in_turns: dict[str, list[str]] = {}  # by what they take
        for user in self._turns:
            for operand in self.nodes[user].operands:
                self._users_in_turns.setdefault(operand, []).append(user)
        self._rank: dict[str, tuple[int, int]] = {}
        self._recomputed: dict[tuple[str, int, bool], bool] = {}
        self._product: dict[str, str | None] = {}  # the product that a node of odd rank follows from
        self.virtual = virtual_nodes(graph)
        self.windowed = {name for node in graph.nodes if node.op == "windows" for name in node.operands}
        self._roots: dict[tuple[object, ...], str] = {}  # what reduces windows, by what it reduces
        self._late = set(breaks.late)  # what is not computed together with the product that it follows from

    def steps(self, ends: Sequence[str]) -> list[SeriesStep]:
        """The steps that compute ``ends``, in order."""
        wanted = [end for end in dict.fromkeys(ends) if end not in self.available]
        if any(end in self.virtual for end in wanted):
            raise CannotCompileError("the windows of a tensor are stored, not reduced", "windows")
        order = self._needed(wanted)
        places = {node.name: place for place, node in enumerate(order)}
        while True:
            for node in order:
                self._rank[node.name], self._product[node.name] = self._ranked(node)
            self._recomputed.clear()
            self._summed = self._behind_reductions(order)
            stored = set(wanted)
            parts: list[_Part] = []
            late: set[str] = set()
            for members in reversed(self._groups(order)):
                outputs = sorted(members & stored, key=places.__getitem__)
                if outputs:
                    parts.insert(0, _Part(self, members, outputs))
                    stored |= parts[0].requested
                    late |= self._better_later(members, outputs, wanted)
            if not late:
                return [part.step() for part in parts]
            self._late |= late

    def _better_later(self, members: set[str], outputs: list[str], wanted: list[str]) -> set[str]:
        """What is to be computed after a product is stored: several tensors would be stored where the product alone will do."""
        if len(set(outputs) - set(wanted)) < 2 or not any(self._product[name] for name in members):
            return set()
        ends = {node.name for node in self._needed([name for name in outputs if name in wanted])}
        return {name for name in members - ends if not self._is_root(name)}

    def _is_root(self, name: str) -> bool:
        """Whether a node is a product, or reduces windows."""
        node = self.nodes[name]
        return node.op in PRODUCTS or (node.op in REDUCTIONS and node.operands[0] in self.virtual)

    def _needed(self, ends: list[str]) -> list[Node]:
        needed = set(ends)
        for node in reversed(self.graph.nodes):
            if node.name in needed and node.name not in self.available:
                needed.update(node.operands)
        return [node for node in self.graph.nodes if node.name in needed]

    def _ranked(self, node: Node) -> tuple[tuple[int, int], str | None]:
        operands = [*node.operands]
        if node.name in self.available or not operands:
            return (0, 0), None
        rank, turn = max(self._rank[name] for name in operands)
        if node.op == "windows":  # they are of what is stored by then
            return (0 if self.available.keys() >= {*operands} else rank + 2 - rank % 2, 0), None
        if node.op in PRODUCTS:
            return (rank + 1 + rank % 2, 0), node.name
        if self._is_root(node.name):
            return (rank + 1 + rank % 2, 0), self._roots.setdefault(_reduced(node), node.name)
        turn = max(turn, self._turns.get(node.name, 0))
        if rank % 2 == 0:
            return (rank, turn), None
        if node.name in self._late:
            return (rank + 1, turn), None
        products = {self._product[name] for name in operands if self._rank[name][0] == rank}
        (product, *others) = products
        if (
            others
            or product is None
            or node.op not in POINTWISE | VIEWS
            or self._count(node.name) != self._count(product)
        ):
            return (rank + 1, turn), None
        return (rank, 0), product

    @functools.cached_property
    def _sizes(self) -> Sizes:
        return Sizes.divisible(self.problem.dimensions, self.graph)

    def _count(self, name: str) -> int:
        count = 1
        for dim in self.nodes[name].meta.shape:
            count *= self._sizes.value(dim)
        return count

    def _behind_reductions(self, order: list[Node]) -> set[str]:
        """The nodes that something of the same rank reduces, so that a kernel computes them anyway."""
        found: set[str] = set()
        for node in reversed([node for node in order if node.name not in self.available]):
            reduces = self._rank[node.name][0] % 2 == 0 and node.op not in POINTWISE | VIEWS | PRODUCTS | {"windows"}
            if reduces or node.name in found:
                same = [operand for operand in node.operands if self._rank[operand] == self._rank[node.name]]
                found.update(same)
        return found

    def _groups(self, order: list[Node]) -> list[set[str]]:
        """The nodes of each step, lower ranks first: of one product, or connected between products."""
        groups: dict[tuple[tuple[int, int], str], set[str]] = {}
        owner: dict[str, tuple[tuple[int, int], str]] = {}
        for node in order:
            if node.name in self.available or node.name in self.virtual or not node.operands:
                continue
            rank, product = self._rank[node.name], self._product[node.name]
            leader = self.chains[product].leader if product and product in self.chains else product
            key = (rank, leader or node.name)
            members = groups.setdefault(key, set())
            members.add(node.name)
            owner[node.name] = key
            if product is None:
                for operand in node.operands:
                    other = owner.get(operand)
                    if other is not None and other[0] == rank and other != key:
                        for name in groups[other]:
                            owner[name] = key
                        members |= groups.pop(other)
        return [groups[key] for key in sorted(groups, key=lambda key: key[0])]

    def is_recomputed(self, name: str, rank: int, *, often: bool) -> bool:
        """Whether a step of a rank computes a node again rather than load it; ``often``: for every block of a product's operand."""
        key = (name, rank, often)
        if key not in self._recomputed:  # once, since paths through a graph are many
            self._recomputed[key] = self._is_recomputed(name, rank, often=often)
        return self._recomputed[key]

    def _is_recomputed(self, name: str, rank: int, *, often: bool) -> bool:
        node = self.nodes[name]
        if name in self.available or not node.operands:
            return True
        if (self._rank[name][0] not in {0, rank} and not often) or name in self.windowed:
            return False
        if name in self._stored or node.op not in POINTWISE | VIEWS:
            return False
        if often and not self._is_number(name) and (node.op not in CHEAP | VIEWS or name in self._summed):
            return False
        operands = node.operands
        if not often and self._rank[name][0] == rank:
            # Of a step before it that was taken from the same: what that one reduces is few numbers, and products lie in memory.
            operands = tuple(o for o in operands if self._rank[o][0] % 2 == 0 and self.nodes[o].op not in REDUCTIONS)
        return all(o in self._stored or self.is_recomputed(o, rank, often=often) for o in operands)

    def _is_number(self, name: str) -> bool:
        """Whether a node is one number, the same whatever the inputs are."""
        node = self.nodes[name]
        return node.op == "full" or (
            not node.meta.shape and node.op in POINTWISE and all(self._is_number(operand) for operand in node.operands)
        )

    def rank(self, members: set[str]) -> int:
        """The rank of a step, without its turn."""
        return self._rank[next(iter(members))][0]

    def is_between_turns(self, name: str) -> bool:
        """Whether a node is stored because a step was taken apart: what reductions come to, which is few numbers."""
        own, users = self._rank[name], self._users_in_turns.get(name, ())
        return name not in self._stored and any(self._rank.get(user, own) != own for user in users)


def _reduced(node: Node) -> tuple[Arg, ...]:
    """What a reduction is of, and over which dimensions."""
    dims = node.args[1]
    return (node.args[0], *(dims if isinstance(dims, tuple) else (dims,)))


class _Part:
    """Collects the nodes of a step, and the nodes that others have to store for it."""

    def __init__(self, cut: StepCutter, members: set[str], outputs: list[str]) -> None:
        self._cut, self._members, self._outputs = cut, members, outputs
        self._rank = cut.rank(members)
        self._copies: dict[str, Node] = {}
        self._owners: dict[str, str] = {}  # which role a tensor has by its own name
        self.requested: set[str] = set()
        self._inputs: dict[str, str] = {}
        for name in outputs:
            self._visit(name, "")

    def _visit(self, name: str, role: str) -> str:
        """Copy a node and what it takes; returns the copy's name."""
        node = self._cut.nodes[name]
        if name in self._cut.available:
            return self._input(name, role)
        copied = f"{name}{AGAIN}{role}" if role else name
        if copied in self._copies:
            return copied
        inside = not role and name in self._members
        if inside and node.op == CHAINED:
            return self._chained(name)
        if not inside and name in self._cut.windowed:  # whatever it is, it is stored
            self.requested.add(name)
            return self._input(name, role)
        if not (inside or not node.operands):
            view = node.op in VIEWS or name in self._cut.virtual
            if not view and not self._cut.is_recomputed(name, self._rank, often=bool(role)):
                self.requested.add(name)
                return self._input(name, role)
        sides = ["left", "right"] if node.op == "matmul" else [role] * len(node.operands)
        args: Arg = self._renamed(node.args, iter(sides))
        assert isinstance(args, tuple)
        self._copies[copied] = replace(node, name=copied, args=args)
        return copied

    def _chained(self, name: str) -> str:
        """Copy the nodes of a chained product."""
        chain = self._cut.chains[name]
        table = {own: self._leaf(node, role) for own, (node, role) in chain.leaves.items()}

        def renamed(argument: Arg) -> Arg:
            return NodeRef(table.get(argument.name, argument.name)) if isinstance(argument, NodeRef) else argument

        self._copies |= {n.name: replace(n, args=tuple(renamed(a) for a in n.args)) for n in chain.nodes}
        return name

    def _leaf(self, name: str, role: str) -> str:
        if name not in self._cut.available:
            self.requested.add(name)
        return self._input(name, role)

    def _renamed(self, argument: Arg | tuple[Arg, ...], sides: Iterable[str]) -> Arg:
        sides = iter(sides)
        if isinstance(argument, NodeRef):
            return NodeRef(self._visit(argument.name, next(sides)))
        if isinstance(argument, tuple):
            return tuple(self._renamed(item, sides) for item in argument)  # type: ignore[misc]
        return argument

    def _input(self, name: str, role: str) -> str:
        owner = self._owners.setdefault(name, role)
        own = name if owner == role else f"{name}{AGAIN}{role or 'result'}"
        self._inputs[own] = name
        if own not in self._copies:
            self._copies[own] = Node(own, "input", (), self._cut.nodes[name].meta)
        return own

    def step(self) -> SeriesStep:
        """The step."""
        cut = self._cut
        problem, graph = cut.problem, cut.graph
        self._take_a_dtype()
        self._take_sizes()
        if not self._inputs:  # constants alone: some tensor tells where they are stored
            self._input(self._given[0], "")
        nodes = tuple(self._copies.values())
        texts = {name for node in nodes for text in texts_of((*node.args, *node.meta.shape)) for name in names_in(text)}
        rules = tuple(rule for rule in graph.multiples if texts & {*rule.scalars} and rule.dimension in texts)
        texts |= {name for rule in rules for name in rule.scalars}
        scalars = tuple(s for s in problem.scalars if s.name in texts or s.name in graph.specialised)
        names = sorted(self._inputs, key=lambda own: AGAIN in own)
        specs = tuple(self._spec(own) for own in names)
        plain = [own for own in names if AGAIN not in own]
        part = replace(
            problem,
            inputs=specs,
            scalars=scalars,
            parameters=(*plain, *(scalar.name for scalar in scalars)),
        )
        needed = {node.name for node in nodes_behind(replace(graph, nodes=nodes), self._outputs)}
        own = replace(
            graph,
            nodes=tuple(node for node in nodes if node.name in needed or node.op == "input"),
            inputs=tuple(names),
            outputs=tuple(self._outputs),
            upstream=(None,) * len(self._outputs),
            gradients=(),
            tuple_output=len(self._outputs) > 1,
            rounded=tuple(rounding for rounding in graph.rounded if rounding.node in self._copies),
            multiples=rules,
            bounds=(),
            output_dtypes=tuple(self._seen(name) for name in self._outputs),
        )
        return SeriesStep(cut.timed, part, own)

    def _take_a_dtype(self) -> None:
        """A step that is handed float32 alone takes a tensor that tells it the call's dtype, where it stores something in that."""
        stored = [name for name in self._outputs if self._cut.nodes[name].meta.dtype == "float32"]
        if not any(self._seen(name) == "bfloat16" for name in stored):
            return
        if any(self._spec(own).dtype is None for own in self._inputs):
            return
        free = (name for name in self._given if self._spec_of(name, name).dtype is None)
        name = next(free, None)
        if name is not None:
            self._input(name, "")

    def _take_sizes(self) -> None:
        """A step that is handed merged dimensions alone takes a tensor that tells it one of these, where it needs that."""
        shapes = [self._cut.nodes[name].meta.shape for name in self._inputs.values()]
        told = {dim.text for shape in shapes for dim in shape if isinstance(dim, Expr)}
        needed = [text for node in self._copies.values() for text in texts_of((*node.meta.shape, *node.args))]
        texts = {name for text in needed for name in names_in(text)}
        for text in sorted(texts - told):
            tells = (name for name in self._given if Expr(text) in self._cut.nodes[name].meta.shape)
            name = next(tells, None)
            if name is not None:
                self._input(name, "")

    @property
    def _given(self) -> list[str]:
        """The tensors that the caller hands to the pass."""
        backward = self._cut.timed is Pass.backward
        given = (*(self._cut.graph.upstream if backward else ()), *self._cut.graph.inputs)
        return [name for name in given if name is not None]

    def _seen(self, name: str) -> str:
        """The dtype of a tensor that is stored where the call's is bfloat16."""
        graph, narrow = self._cut.graph, self._cut.narrow
        is_computed_again = self._cut.timed is Pass.backward and name in self._cut.wide
        if name in graph.outputs and graph.output_dtypes and not is_computed_again:
            return graph.output_dtypes[graph.outputs.index(name)]
        stored = self._cut.available.get(name)
        if stored is not None:
            return stored
        if name in self._cut.wide:
            return "float32"
        if name in self._cut.chains and self._is_narrow(self._cut.chains[name]):
            return "bfloat16"
        ends = {node for _, node in graph.gradients}
        owners = {owner for owner, node in graph.gradients if node == name}
        if any(spec.dtype == "float32" for spec in self._cut.problem.inputs if spec.name in owners):
            return "float32"
        if name not in ends and self._cut.is_between_turns(name):
            return "float32"
        base = _viewed(name, self._cut.nodes)
        return "bfloat16" if not narrow or base in narrow or name in ends else "float32"

    def _is_narrow(self, chain: Chain) -> bool:
        """Whether a chain multiplies tensors of the call's dtype, uncast, so that its results have it in eager mode."""
        operands = {node for node, role in chain.leaves.values() if role in {"rows", "columns"}}
        specs = {spec.name: spec.dtype for spec in self._cut.problem.inputs}
        uncast = all(node.op != "cast" for node in chain.nodes)
        return uncast and all(specs[node] is None if node in specs else self._follows(node) for node in operands)

    def _spec(self, own: str) -> InputSpec:
        return self._spec_of(own, self._inputs[own])

    def _spec_of(self, own: str, name: str) -> InputSpec:
        problem = self._cut.problem
        spec = next((spec for spec in problem.inputs if spec.name == name), None)
        if spec is not None:
            return replace(spec, name=own)
        meta = self._cut.nodes[name].meta
        dims = tuple(dim.text if isinstance(dim, Expr) else str(dim) for dim in meta.shape)
        dtype = meta.dtype if meta.dtype != "float32" else None if self._follows(name) else "float32"
        return InputSpec(own, dims, dtype, None, None, "normal", False, False)

    def _follows(self, name: str) -> bool:
        graph = self._cut.graph
        if name in graph.upstream:
            return not graph.output_dtypes or graph.output_dtypes[graph.upstream.index(name)] == "bfloat16"
        return self._seen(name) == "bfloat16"
