"""Unify traces of one problem into a graph over names, and check whether a trace is an instance of it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpu_runner.contracts import Expr, Graph, Node, NodeRef, TensorMeta
from gpu_runner.contracts.expressions import ExpressionError, Number, evaluate_expression
from gpu_runner.contracts.graph import Arg, Atom, Dim
from gpu_runner.tracing.fitting import Fitter
from gpu_runner.tracing.raw import RawArg, RawAtom, RawGraph, RawNode, Ref, same_number


class DifferentStructure(ValueError):  # noqa: N818 - it states a fact
    """The traces do not have the same operations."""


@dataclass
class Unified:
    """``unexplained`` are the places of numbers that no expression gives: the node's name and the values."""

    graph: Graph
    unexplained: list[tuple[str, tuple[RawAtom, ...]]] = field(default_factory=list)


def unify(traces: Sequence[RawGraph], fitter: Fitter, specialised: Sequence[str] = ()) -> Unified:
    """The graph that all traces are instances of.

    Raises:
        DifferentStructure: there is none.
    """
    check_same_structure(traces)
    unexplained: list[tuple[str, tuple[RawAtom, ...]]] = []
    nodes: list[Node] = []
    for column in zip(*(t.nodes for t in traces), strict=True):
        nodes += _nodes(column, fitter, unexplained)
    first = traces[0]
    graph = Graph(
        tuple(nodes),
        first.inputs,
        first.outputs,
        first.upstream,
        first.gradients,
        tuple(sorted(specialised)),
        first.tuple_output,
    )
    return Unified(graph, unexplained)


def check_same_structure(traces: Sequence[RawGraph]) -> None:
    """Compare everything but the numbers.

    Raises:
        DifferentStructure: with the first operation that differs.
    """
    first = traces[0]
    for other in traces[1:]:
        if len(first.nodes) != len(other.nodes):
            raise DifferentStructure(_lengths(first, other))
        for a, b in zip(first.nodes, other.nodes, strict=True):
            if _skeleton(a) != _skeleton(b):
                raise DifferentStructure(f"`{a.op}` in one trace is `{b.op}` in another")
        if (first.outputs, first.gradients) != (other.outputs, other.gradients):
            raise DifferentStructure("the outputs are different operations")


def changed_numbers(a: RawGraph, b: RawGraph) -> set[str]:
    """The names of nodes whose numbers differ between two traces of the same structure."""
    return {x.name for x, y in zip(a.nodes, b.nodes, strict=True) if _numbers(x) != _numbers(y)}


def _lengths(first: RawGraph, other: RawGraph) -> str:
    for a, b in zip(first.nodes, other.nodes, strict=False):
        if _skeleton(a) != _skeleton(b):
            return f"`{a.op}` in one trace is `{b.op}` in another"
    return f"{len(first.nodes)} operations in one trace, {len(other.nodes)} in another"


def _skeleton(node: RawNode) -> tuple[object, ...]:
    arguments = [_shape_of(a) for a in node.args], [(k, _shape_of(a)) for k, a in node.kwargs]
    return node.name, node.op, node.dtype, len(node.shape), *map(str, arguments)


def _shape_of(arg: RawArg) -> object:
    if isinstance(arg, tuple):
        return tuple(_shape_of(item) for item in arg)
    if isinstance(arg, int | float) and not isinstance(arg, bool):
        return "number"
    return arg


def _numbers(node: RawNode) -> list[str]:
    flat = [i for a in [*node.args, *(v for _, v in node.kwargs)] for i in (a if isinstance(a, tuple) else (a,))]
    return [repr(i) for i in flat if not isinstance(i, Ref)]


def _nodes(
    column: tuple[RawNode, ...], fitter: Fitter, unexplained: list[tuple[str, tuple[RawAtom, ...]]]
) -> list[Node]:
    """A node, after the nodes for what an expression cannot state: the root of a size."""
    first = column[0]
    before: list[Node] = []

    def atom(values: tuple[RawAtom, ...]) -> Atom:
        result = _atom(values, fitter)
        if result is None and values[0] is not None:
            result = _root(f"{first.name}_root{len(before) or ''}", first.dtype, values, fitter, before)
        if result is None and values[0] is not None:
            unexplained.append((first.name, values))
        return result

    def arg(values: tuple[RawArg, ...]) -> Arg:
        if isinstance(values[0], tuple):
            return tuple(atom(items) for items in zip(*(v for v in values if isinstance(v, tuple)), strict=True))
        return atom(tuple(v for v in values if not isinstance(v, tuple)))

    shape = tuple(_dim(atom(sizes)) for sizes in zip(*(n.shape for n in column), strict=True))
    args = tuple(arg(values) for values in zip(*(n.args for n in column), strict=True))
    keys = [key for key, _ in first.kwargs]
    kwargs = tuple((key, arg(tuple(dict(n.kwargs)[key] for n in column))) for key in keys)
    return [*before, Node(first.name, first.op, args, TensorMeta(shape, first.dtype), kwargs)]


def _root(name: str, dtype: str, values: tuple[RawAtom, ...], fitter: Fitter, before: list[Node]) -> NodeRef | None:
    numbers = [float(v) for v in values if isinstance(v, float)]
    if len(numbers) != len(values) or not dtype.startswith(("float", "bfloat")) or min(numbers) <= 0:
        return None
    for roots in (1, 2):
        text = fitter.fit([n ** (2**roots) for n in numbers])
        if text is not None:
            meta = TensorMeta((), dtype)
            before.append(Node(f"{name}_of", "full", (Expr(text),), meta))
            for depth in range(roots):
                inner = f"{name}_of" if depth == 0 else f"{name}_{depth}"
                before.append(Node(f"{name}_{depth + 1}", "sqrt", (NodeRef(inner),), meta))
            return NodeRef(f"{name}_{roots}")
    return None


def _dim(value: Atom) -> Dim:
    return value if isinstance(value, int | Expr) else 0


def _atom(values: tuple[RawAtom, ...], fitter: Fitter) -> Atom:
    first = values[0]
    if isinstance(first, Ref):
        return NodeRef(first.name)
    if all(same_number(first, other) for other in values[1:]):
        return first
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) != len(values) or not all(math.isfinite(n) for n in numbers):
        return None
    text = fitter.fit(numbers)
    return None if text is None else Expr(text)


def is_instance(graph: Graph, of: RawGraph, trace: RawGraph, values: Mapping[str, Number]) -> bool | None:
    """Whether a trace has the graph's numbers for ``values``; None where it has other operations.

    ``of`` is a trace that the graph was made from.
    """
    try:
        check_same_structure([of, trace])
    except DifferentStructure:
        return None
    nodes = {node.name: node for node in graph.nodes}
    try:
        return all(_is_node(nodes[raw.name], raw, values) for raw in trace.nodes)
    except ExpressionError:
        return False


def has_shapes(graph: Graph, of: RawGraph, trace: RawGraph, values: Mapping[str, Number]) -> bool | None:
    """Whether a trace has the graph's shapes for ``values``; None where it has other operations. ``of`` as above."""
    try:
        check_same_structure([of, trace])
    except DifferentStructure:
        return None
    nodes = {node.name: node for node in graph.nodes}
    try:
        return all(_is_value(nodes[raw.name].meta.shape, raw.shape, values) for raw in trace.nodes)
    except ExpressionError:
        return False


def _is_node(node: Node, raw: RawNode, values: Mapping[str, Number]) -> bool:
    pairs = [*zip(node.meta.shape, raw.shape, strict=True), *zip(node.args, raw.args, strict=True)]
    pairs += zip((value for _, value in node.kwargs), (value for _, value in raw.kwargs), strict=True)
    return all(_is_value(mine, there, values) for mine, there in pairs)


def _is_value(mine: Arg, there: RawArg, values: Mapping[str, Number]) -> bool:
    if isinstance(mine, tuple) and isinstance(there, tuple):
        return len(mine) == len(there) and all(_is_atom(a, b, values) for a, b in zip(mine, there, strict=True))
    return not isinstance(mine, tuple) and not isinstance(there, tuple) and _is_atom(mine, there, values)


def _is_atom(mine: Atom, there: RawAtom, values: Mapping[str, Number]) -> bool:
    if isinstance(mine, int | float | bool | str | None):
        return same_number(mine, there)
    if not isinstance(there, int | float) or isinstance(there, bool):
        return True  # references are part of the structure
    return isinstance(mine, Expr) and math.isclose(evaluate_expression(mine.text, values), there, rel_tol=1e-9)


def with_slopes_of_constants(graph: Graph) -> Graph:
    """The graph with the gradient of ``x ** p`` zero at p = 0, as torch has it.

    Torch decides by the value of p, so that no trace at another one has it; ``p * x ** (p - 1)`` is NaN there for x = 0.
    """
    nodes, chosen, written = {node.name: node for node in graph.nodes}, dict[str, str](), list[Node]()
    for node in graph.nodes:
        written.append(replace(node, args=tuple(_instead(arg, chosen) for arg in node.args)))
        exponent = _exponent_of_slope(node, nodes)
        if exponent is not None:
            of, at_zero, result = (f"{node.name}_{end}" for end in ("of", "at_zero", "unless_zero"))
            written.append(Node(of, "full", (exponent,), TensorMeta((), node.meta.dtype)))
            written.append(Node(at_zero, "eq", (NodeRef(of), 0), TensorMeta((), "bool")))
            written.append(Node(result, "where", (NodeRef(at_zero), 0, NodeRef(node.name)), node.meta))
            chosen[node.name] = result
    gradients = tuple((name, node and chosen.get(node, node)) for name, node in graph.gradients)
    return replace(graph, nodes=tuple(written), gradients=gradients)


def _instead(arg: Arg, chosen: Mapping[str, str]) -> Arg:
    if isinstance(arg, tuple):
        return tuple(NodeRef(chosen.get(a.name, a.name)) if isinstance(a, NodeRef) else a for a in arg)
    return NodeRef(chosen.get(arg.name, arg.name)) if isinstance(arg, NodeRef) else arg


def _exponent_of_slope(node: Node, nodes: Mapping[str, Node]) -> Expr | None:
    """p, of an upstream gradient times ``x ** (p - 1) * p``."""
    if node.op != "mul" or not isinstance(node.args[1], NodeRef):
        return None
    slope = nodes[node.args[1].name]
    if slope.op != "mul" or not isinstance(slope.args[0], NodeRef) or not isinstance(slope.args[1], Expr):
        return None
    power, exponent = nodes[slope.args[0].name], slope.args[1]
    return exponent if power.op == "pow" and power.args[1] == Expr(f"{exponent.text} - 1") else None
