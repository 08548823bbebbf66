"""Calls whose result is another call's over a number of elements, as a mean is a sum's: one set of kernels serves both. Pure."""

from __future__ import annotations

from dataclasses import replace

from gpu_runner.contracts import Graph, Node, NodeRef, Problem
from gpu_runner.contracts.graph import Arg, Expr
from workers.authors.compiler.graph import renamed

FULL_PRECISION = "float32"


def unscaled(graph: Graph) -> tuple[Graph, str]:
    """A graph without the division that ends it and those of its upstream gradient, and the arithmetic over dimensions that
    divided; the graph as it is, and no text, where its result is no number in float32 over one.

    What is left gives ``s`` and, of an upstream gradient ``d``, its gradients; the whole gives ``s / size``, and those of
    ``d / size``.
    """
    nodes = {node.name: node for node in graph.nodes}
    last = nodes[graph.outputs[0]]
    if (
        len(graph.outputs) != 1
        or graph.upstream[0] is None
        or last.meta.shape
        or graph.output_dtypes != (FULL_PRECISION,)
    ):
        return graph, ""
    if last.op != "div" or not isinstance(last.args[1], Expr) or _users(graph, last.name):
        return graph, ""
    ended, divided = _divided(graph, graph.upstream[0], last.args[1])
    if not ended:
        return graph, ""
    kept = {node.name: node.operands[0] for node in (last, *divided)}
    return (
        replace(
            graph,
            nodes=tuple(_without(node, kept) for node in graph.nodes if node.name not in kept),
            outputs=(kept[last.name],),
            gradients=tuple((name, kept.get(node or "", node)) for name, node in graph.gradients),
            rounded=tuple(one for one in graph.rounded if one.node not in kept),
        ),
        last.args[1].text,
    )


def _users(graph: Graph, name: str) -> list[Node]:
    return [node for node in graph.nodes if name in node.operands]


def _divided(graph: Graph, upstream: str, size: Expr) -> tuple[bool, list[Node]]:
    """Whether a gradient is divided by the size wherever it is used, and by which nodes."""
    divided = list[Node]()
    for user in _users(graph, upstream):
        if user.op == "div" and user.args == (NodeRef(upstream), size):
            divided.append(user)
        elif user.op == "expand":
            whole, further = _divided(graph, user.name, size)
            divided += further
            if not whole:
                return False, []
        else:
            return False, []
    return bool(divided), divided


def _without(node: Node, kept: dict[str, str]) -> Node:
    def plain(argument: Arg) -> Arg:
        if isinstance(argument, tuple):
            return tuple(NodeRef(kept[a.name]) if isinstance(a, NodeRef) and a.name in kept else a for a in argument)
        return NodeRef(kept[argument.name]) if isinstance(argument, NodeRef) and argument.name in kept else argument

    return replace(node, args=tuple(map(plain, node.args)))


def host_source(size: str, problem: Problem) -> str:
    """Arithmetic over a problem's dimensions, as it is read off its inputs; nothing of nothing."""
    if not size:
        return ""
    whole = next((spec.name for spec in problem.inputs if size == " * ".join(spec.dims)), None)
    if whole is not None:
        return f"{whole}.numel()"
    places = {
        dim: f"{spec.name}.shape[{place - len(spec.dims) if place else 0}]"
        for spec in reversed(problem.inputs)
        for place, dim in enumerate(spec.dims)
    }
    return renamed(size, places)
