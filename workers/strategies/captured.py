"""What a captured problem tells of a kernel that nobody has written yet: its rows, what they share, what backward needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_runner.contracts import Graph, Node, NodeRef, Problem
from gpu_runner.contracts.graph import Arg

PRODUCTS = frozenset({"matmul"})
REDUCTIONS = frozenset({"sum", "amax", "amin", "prod", "argmax"})
SCANS = frozenset({"cumsum", "cumprod"})
# Operators outside of the graph's vocabulary that go along one dimension, by their torch names.
ALONG_ROWS = frozenset({"logcumsumexp", "sort", "topk", "argsort", "cummax", "cummin"})
# The same values in another place, form or type: a kernel keeps none of them.
LOOKUPS = frozenset({"gather", "index_select"})
MOVING = frozenset({"cast", "reshape", "expand", "permute", "slice"})


def reached(graph: Graph, roots: Iterable[str | None]) -> tuple[Node, ...]:
    """Give the nodes that some depend on, themselves among them, in the order of the graph."""
    nodes = {node.name: node for node in graph.nodes}
    found, waiting = set[str](), [root for root in roots if root is not None]
    while waiting:
        name = waiting.pop()
        if name not in found and name in nodes:
            found.add(name)
            waiting += operands(nodes[name])
    return tuple(node for node in graph.nodes if node.name in found)


def forward_nodes(graph: Graph) -> tuple[Node, ...]:
    """Give the nodes that the outputs depend on."""
    return reached(graph, graph.outputs)


def backward_nodes(graph: Graph) -> tuple[Node, ...]:
    """Give the nodes that only the gradients depend on."""
    forward = {node.name for node in forward_nodes(graph)}
    return tuple(node for node in reached(graph, (name for _, name in graph.gradients)) if node.name not in forward)


def looked_up(graph: Graph) -> frozenset[str]:
    """Give the inputs that are tables: of which single elements or rows are read alone, at places that another input names."""
    users: dict[str, set[str]] = {}
    for node in forward_nodes(graph):
        for place, name in enumerate(operands(node)):
            users.setdefault(name, set()).add(node.op if place == 0 else "read whole")
    return frozenset(name for name in graph.inputs if users.get(name) and users[name] <= LOOKUPS)


def operands(node: Node) -> list[str]:
    """Give the nodes whose values a node takes."""
    return [name for argument in (*node.args, *(value for _, value in node.kwargs)) for name in _names(argument)]


def has_products(graph: Graph) -> bool:
    """Tell whether the outputs need a matrix product, of which tiles and not rows are the unit."""
    return any(node.op in PRODUCTS or _torch_name(node.op) in ("convolution", "bmm") for node in forward_nodes(graph))


def reduces_rows(graph: Graph) -> bool:
    """Tell whether forward goes along the last dimension of what it reads, so that a row is one piece of work."""
    ranks = {node.name: len(node.meta.shape) for node in graph.nodes}
    for node in forward_nodes(graph):
        if _torch_name(node.op) in ALONG_ROWS:
            return True
        if node.op in REDUCTIONS | SCANS and (operand := next(iter(operands(node)), None)) is not None:
            dims = node.args[1] if len(node.args) > 1 else ()
            told = dims if isinstance(dims, tuple) else (dims,)
            if not told or {-1, ranks.get(operand, 0) - 1} & set(told):
                return True
    return False


def shared_by_rows(problem: Problem) -> tuple[str, ...]:
    """Give the inputs of which every row of the widest input reads all, such as a weight: they lack its leading dimensions."""
    widest = max((spec.dims for spec in problem.inputs), key=len, default=())
    return tuple(spec.name for spec in problem.inputs if spec.dims == widest[-1:] and len(widest) > 1)


def kept_for_backward(problem: Problem, graph: Graph) -> tuple[str, ...]:
    """Give the operators in forward whose results, of the size of the widest input, backward uses; outputs are there anyway."""
    nodes, forward = {node.name: node for node in graph.nodes}, {node.name for node in forward_nodes(graph)}
    rank = max((len(spec.dims) for spec in problem.inputs), default=0)
    wide = {_size(nodes[name]) for name in graph.inputs if name in nodes and len(nodes[name].meta.shape) == rank}
    there = {_moved(nodes, name) for name in (*graph.inputs, *graph.outputs)}
    used = (name for node in backward_nodes(graph) for name in operands(node) if name in forward)
    found = dict.fromkeys(_moved(nodes, name) for name in used)
    kept = [nodes[name] for name in found if name in nodes and name not in there and _size(nodes[name]) in wide]
    return tuple(node.op for node in kept if node.op not in ("input", "full", "arange"))


def _moved(nodes: dict[str, Node], name: str) -> str:
    """The node whose values one has, seen through what only moves or widens them."""
    for _ in nodes:
        given = operands(nodes[name]) if name in nodes and nodes[name].op in MOVING else []
        if not given:
            break
        name = given[0]
    return name


def _size(node: Node) -> tuple[str, ...]:
    return tuple(str(getattr(dim, "text", dim)) for dim in node.meta.shape)


def _torch_name(op: str) -> str:
    parts = op.split(".")
    return parts[1] if len(parts) > 1 else ""


def _names(argument: Arg | tuple[Arg, ...]) -> list[str]:
    if isinstance(argument, NodeRef):
        return [argument.name]
    return [name for item in argument for name in _names(item)] if isinstance(argument, tuple) else []
