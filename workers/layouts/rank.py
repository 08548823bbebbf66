"""Whether a problem means the same with more leading dimensions than it names, as a model's (batch, tokens, columns). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpu_runner.contracts import Graph, NodeRef, Problem
from gpu_runner.contracts.graph import Arg, Dim, Expr, Node
from workers.layouts.trailing import counts_from_the_end

# What acts on each element alone, whatever the rank. Source: the pointwise operators of gpu_runner.contracts.graph.
POINTWISE = frozenset(
    {"input", "cast", "full", "expand", "where"}
    | {
        "neg",
        "abs",
        "exp",
        "exp2",
        "log",
        "log2",
        "log1p",
        "expm1",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "sigmoid",
        "tanh",
        "erf",
    }
    | {"sin", "cos", "relu", "sign", "floor", "ceil", "round", "trunc", "logical_not", "isnan"}
    | {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"}
    | {"logical_and", "logical_or", "atan2", "fmod"}
)


# What moves no element and adds none: along the last dimensions it means the same at any rank.
MOVING = frozenset({"reshape", "slice", "cat"})
REDUCTIONS = frozenset({"sum", "amax", "amin"})


def leading_inputs(problem: Problem, graph: Graph) -> tuple[str, ...]:
    """Give the inputs that may have more leading dimensions, all of them the same; none where the problem may mean more by its own.

    These are the inputs that begin with the first dimension; the others must lack it, as a weight does.
    """
    first = max((spec.dims for spec in problem.inputs), key=len, default=())[:1]
    if not first or not first[0].isidentifier():
        return ()
    leading = [spec for spec in problem.inputs if spec.dims[:1] == first]
    shared = [spec for spec in problem.inputs if first[0] not in spec.dims]
    whole = len(leading) + len(shared) == len(problem.inputs) and not any(spec.parameter for spec in leading)
    if (
        not whole
        or any(spec.dims.count(first[0]) > 1 for spec in leading)
        or max(len(spec.dims) for spec in leading) < 2
    ):
        return ()
    nodes = {node.name: node for node in graph.nodes}
    reached = [nodes[name] for name in _reached(graph)]
    widest = tuple(dim for dim in max((spec.dims for spec in leading), key=len) if dim.isidentifier())
    if not all(_keeps_leading(node, nodes, widest) for node in reached):
        return ()
    free = counts_from_the_end(problem.source, frozenset(spec.name for spec in shared))
    return tuple(spec.name for spec in leading) if free else ()


def forward_operators(graph: Graph) -> set[str]:
    """Give the operators that the outputs depend on."""
    nodes = {node.name: node for node in graph.nodes}
    return {nodes[name].op for name in _reached(graph)}


def subtracts_a_sum(graph: Graph) -> bool:
    """Tell whether the forward pass takes a mean or another sum off a tensor, as a norm that centres its rows."""
    nodes = {node.name: node for node in graph.nodes}
    differences = [nodes[name] for name in _reached(graph) if nodes[name].op == "sub" and len(nodes[name].args) > 1]
    return any(_is_scaled_sum(node.args[1], nodes) for node in differences)


def _is_scaled_sum(argument: Arg | tuple[Arg, ...], nodes: Mapping[str, Node]) -> bool:
    waiting = _references(argument)
    while waiting:
        node = nodes.get(waiting.pop().name)
        if node is not None and node.op in {"sum", "mean"}:
            return True
        if node is not None and node.op in {"cast", "div", "expand", "mul", "reshape"}:
            waiting += _references(node.args)
    return False


def _reached(graph: Graph) -> list[str]:
    nodes = {node.name: node for node in graph.nodes}
    reached, waiting = dict[str, None](), list(graph.outputs)
    while waiting:
        name = waiting.pop()
        if name in reached or name not in nodes:
            continue
        reached[name] = None
        waiting += [ref.name for ref in _references(nodes[name].args)]
    return list(reached)


def _references(argument: Arg | tuple[Arg, ...]) -> list[NodeRef]:
    if isinstance(argument, NodeRef):
        return [argument]
    return [ref for item in argument for ref in _references(item)] if isinstance(argument, tuple) else []


def _keeps_leading(node: Node, nodes: Mapping[str, Node], dims: tuple[str, ...]) -> bool:
    """Tell whether an operation leaves the first of the dimensions alone; a reduction may take all of them together."""
    for number in node.args:
        if isinstance(number, Expr) and _mentions(number, dims[0]) and not all(_mentions(number, dim) for dim in dims):
            return False
    operands = [nodes[ref.name].meta.shape for ref in _references(node.args) if ref.name in nodes]
    if node.op not in REDUCTIONS | MOVING or not any(_mentions(dim, dims[0]) for shape in operands for dim in shape):
        return node.op in POINTWISE | REDUCTIONS | MOVING
    shape = operands[0]
    argument = node.args[1] if len(node.args) > 1 else None
    if node.op in REDUCTIONS:
        gone = argument if isinstance(argument, tuple) else ()
        return not gone or len(gone) == len(shape) or 0 not in gone
    if node.op == "reshape":
        ones = [[dim for dim in dims if dim != 1] for dims in (shape, node.meta.shape)]
        return ones[0] == ones[1] and shape[:1] == node.meta.shape[:1]
    return len(shape) > 1 and argument in {-1, len(shape) - 1}


def _mentions(dim: Dim, name: str) -> bool:
    return isinstance(dim, Expr) and name in re.findall(r"[A-Za-z_]\w*", dim.text)
