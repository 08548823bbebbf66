"""Whether a trace is what a graph over names says for its sizes and scalars. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gpu_runner.contracts import Expr, Graph
from gpu_runner.contracts.expressions import ExpressionError, Number, evaluate_expression
from gpu_runner.contracts.graph import Arg, Atom, Node
from gpu_runner.tracing.raw import RawArg, RawAtom, RawGraph, RawNode, same_number
from gpu_runner.tracing.unify import DifferentStructure, check_same_structure


def is_instance(graph: Graph, of: RawGraph, trace: RawGraph, values: Mapping[str, Number]) -> bool | None:
    """Tell whether a trace has the graph's numbers for ``values``; None where it has other operations.

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
