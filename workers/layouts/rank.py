"""Whether a problem means the same with more leading dimensions than it names, as a model's (batch, tokens, columns). Pure."""

from __future__ import annotations

import ast

from gpu_runner.contracts import Graph, NodeRef, Problem

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


def takes_leading_dimensions(problem: Problem, graph: Graph) -> bool:
    """Tell whether every input may have more leading dimensions: only element-wise work, on inputs of the same shape."""
    shapes = {spec.dims for spec in problem.inputs}
    if len(shapes) != 1 or len(shapes.pop()) < 2:
        return False
    return forward_operators(graph) <= POINTWISE and not _looks_at_shapes(problem)


def forward_operators(graph: Graph) -> set[str]:
    """Give the operators that the outputs depend on."""
    nodes = {node.name: node for node in graph.nodes}
    reached, waiting = set[str](), list(graph.outputs)
    while waiting:
        name = waiting.pop()
        if name in reached or name not in nodes:
            continue
        reached.add(name)
        for argument in nodes[name].args:
            members = argument if isinstance(argument, tuple) else (argument,)
            waiting += [member.name for member in members if isinstance(member, NodeRef)]
    return {nodes[name].op for name in reached}


def _looks_at_shapes(problem: Problem) -> bool:
    looks = {"shape", "size", "view", "reshape", "unsqueeze", "squeeze", "permute", "transpose", "expand", "flatten"}
    functions = [n for n in ast.parse(problem.source).body if isinstance(n, ast.FunctionDef)]
    nodes = [node for function in functions for statement in function.body for node in ast.walk(statement)]
    return any(isinstance(n, ast.Subscript) or (isinstance(n, ast.Attribute) and n.attr in looks) for n in nodes)
