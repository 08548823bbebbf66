"""Whether a result tells of itself that an index was out of range: it is no number then. Pure.

A compiled kernel reads nothing outside of a row and takes NaN for it; how that NaN moves through the graph is followed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from gpu_runner.contracts import Expr, Graph, InputSpec, Node, NodeRef, Problem


class _Known(Enum):
    """What is known of a tensor, for a row whose index is neither in its range nor a number that the problem singles out."""

    row = "each element is NaN where that element of an input is, along the dimension that the index counts"
    index = "holds the index"
    nan = "holds NaN"
    true = "holds True"
    false = "holds False"
    unknown = "unknown"


_KEEP_NAN = frozenset(["neg", "abs", "sqrt", "rsqrt", "exp", "log", "add", "sub", "mul", "div", "cast"])
_MOVES = frozenset(["reshape", "permute"])


def ranged(problem: Problem) -> list[InputSpec]:
    """Give the inputs that hold whole numbers of a range."""
    return [spec for spec in problem.inputs if spec.high is not None]


def singled_out(spec: InputSpec, graph: Graph) -> list[int]:
    """Give values below the range that the problem itself compares with, such as the class that a loss leaves out."""
    found: list[int] = []
    for node in graph.nodes:
        if node.op in ("eq", "ne") and NodeRef(spec.name) in node.args:
            values = [a for a in node.args if type(a) is int and a < (spec.low or 0)]
            found += [value for value in values if value not in found]
    return found


def told_by_result(problem: Problem, graph: Graph) -> bool:
    """Tell whether the one result is one number, which is NaN for every index out of range, of whichever input."""
    if len(graph.outputs) != 1:
        return False
    result = next(node for node in graph.nodes if node.name == graph.outputs[0])
    return result.meta.shape == () and all(_reaches_result(spec, problem, graph) for spec in ranged(problem))


def _reaches_result(spec: InputSpec, problem: Problem, graph: Graph) -> bool:
    columns = [i.name for i in problem.inputs if i.dtype is None and i.dims and i.dims[-1] == str(spec.high)]
    known = {**dict.fromkeys(columns, _Known.row), spec.name: _Known.index}
    for node in graph.nodes:
        if node.op != "input":
            args = [known.get(arg.name, _Known.unknown) if isinstance(arg, NodeRef) else arg for arg in node.args]
            known[node.name] = _known(node, args, spec)
    return known[graph.outputs[0]] is _Known.nan


def _known(node: Node, args: Sequence[object], spec: InputSpec) -> _Known:
    first, low = args[0] if args else None, spec.low or 0
    if node.op in _MOVES and first in (_Known.index, _Known.nan):
        return _Known(first)
    if node.op in ("eq", "ne") and _Known.index in args and any(type(arg) is int and arg < low for arg in args):
        return _Known.false if node.op == "eq" else _Known.true
    if node.op == "where" and first in (_Known.true, _Known.false):
        chosen = args[1 if first is _Known.true else 2]
        return chosen if isinstance(chosen, _Known) else _Known.unknown
    if node.op == "gather" and first is _Known.row and args[2] is _Known.index:
        last = node.args[1] in (-1, len(node.meta.shape) - 1)
        return _Known.nan if last and low == 0 else _Known.unknown
    if node.op in _KEEP_NAN and _Known.nan in args:
        return _Known.nan
    if node.op in _KEEP_NAN and _Known.row in args and _width(node) == str(spec.high):
        return _Known.row
    return _Known.nan if node.op == "sum" and first is _Known.nan else _Known.unknown


def _width(node: Node) -> str:
    size = node.meta.shape[-1] if node.meta.shape else ""
    return size.text if isinstance(size, Expr) else str(size)
