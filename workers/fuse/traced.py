"""A traced model with what the cut asks of it: sizes, users, gradients, costs. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpu_runner.contracts import CaptureResult, Expr, Graph, Node, NodeRef, Problem, parse_problem
from gpu_runner.contracts.expressions import evaluate_expression
from gpu_runner.contracts.graph import Arg, Atom, Dim, TensorMeta
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.fuse.einsums import pairwise
from workers.fuse.operators import (
    ACTIVATIONS,
    LIBRARY,
    MOVES,
    PASSES_GRADIENT,
    READ_TWICE,
    VIEWS,
    OperatorKind,
    Shape,
    bytes_of,
    flops_of,
    packet_of,
)

_LINEAR = "aten.linear.default"
_FULL_TILE = 128  # rows and columns


@dataclass(frozen=True)
class Traced:
    """``problem`` is in the reference form, to which a KernelBench ``is_model`` was rewritten; ``tied`` are second names of
    its parameters, each with the first one. ``biased`` are products with a bias as they were traced, by the name of the addition
    that each was split into (``split``).
    """

    graph: Graph
    problem: Problem
    is_model: bool = False
    tied: tuple[tuple[str, str], ...] = ()
    biased: Mapping[str, Node] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """The nodes by name, in an order in which they can be evaluated."""
        return {node.name: node for node in self.graph.nodes}

    @cached_property
    def users(self) -> dict[str, tuple[str, ...]]:
        """By name, the nodes that read a node, each once."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for node in self.graph.nodes:
            for source in dict.fromkeys(node.operands):
                found[source].append(node.name)
        return {name: tuple(users) for name, users in found.items()}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The sizes of the model's first workload by dimension."""
        return dict(self.problem.workloads[0].sizes) if self.problem.workloads else {}

    @cached_property
    def differentiable(self) -> frozenset[str]:
        """The nodes through which a gradient flows."""
        found = {spec.name for spec in self.problem.inputs if spec.grad and spec.dtype in (None, "float32", "float64")}
        for node in self.graph.nodes:
            flows = node.meta.dtype.startswith(("float", "bfloat")) and packet_of(node.op) != "detach"
            if flows and any(source in found for source in node.operands):
                found.add(node.name)
        return frozenset(found)

    @cached_property
    def tuples(self) -> frozenset[str]:
        """The nodes whose value is several tensors."""
        return frozenset(node.operands[0] for node in self.graph.nodes if node.op == "getitem")

    def kind(self, name: str) -> OperatorKind:
        """What may become of a node that is no input."""
        node = self.nodes[name]
        packet = packet_of(node.op)
        if packet in VIEWS:
            return OperatorKind.view
        if packet in LIBRARY or name in self.tuples or not node.op.startswith("aten."):
            return OperatorKind.library
        if not node.operands:
            return OperatorKind.made
        if set().union(*map(names_in, arguments(node))) - self.sizes.keys():
            return OperatorKind.scalar
        values = [self.nodes[source] for source in node.operands]
        whole = any(not v.meta.dtype.startswith(("float", "bfloat", "bool")) for v in [*values, node])
        return OperatorKind.whole if whole else OperatorKind.fusable

    def size(self, dim: Dim) -> int:
        """The number for a dimension at the first workload."""
        if isinstance(dim, int):
            return dim
        scalars = {spec.name: spec.default for spec in self.problem.scalars if isinstance(spec.default, int | float)}
        return int(evaluate_expression(dim.text, scalars | self.sizes))

    def shape(self, name: str) -> Shape:
        """The shape of a node's value at the first workload."""
        return tuple(self.size(dim) for dim in self.nodes[name].meta.shape)

    def bytes(self, name: str) -> int:
        """Bytes of a node's value."""
        return bytes_of(self.shape(name), self.nodes[name].meta.dtype)

    def bytes_apart(self, name: str) -> int:
        """Bytes that a node moves with torch beyond what a kernel of its own would in its backward.

        An operator of its own reads its operands and writes its result. A bias is added by the product that it belongs to, but
        its gradient is a sum that reads all of the result's.
        """
        operands = dict.fromkeys(self.nodes[name].operands)
        if name in self.biased:
            return self.bytes(name) if self.differentiable.intersection(operands) else 0
        moved = self.bytes(name) + sum(map(self.bytes, operands))
        is_read_twice = (
            packet_of(self.nodes[name].op) in READ_TWICE and len(self.differentiable.intersection(operands)) > 1
        )
        return moved + (2 * self.bytes(name) if is_read_twice else 0)

    def backward_apart(self, name: str) -> int:
        """Bytes that a node's backward moves with torch, besides those of ``bytes_apart``: an estimate."""
        wanted = [s for s in dict.fromkeys(self.nodes[name].operands) if s in self.differentiable]
        if packet_of(self.nodes[name].op) in PASSES_GRADIENT:
            added = [s for s in wanted if self.bytes(s) < self.bytes(name) and name not in self.biased]
            return len(added) * self.bytes(name)
        return 2 * self.bytes(name) + sum(map(self.bytes, wanted)) if wanted else 0

    def flops(self, name: str) -> int:
        """Floating-point operations of a node."""
        node = self.nodes[name]
        return flops_of(packet_of(node.op), [self.shape(source) for source in node.operands], self.shape(name))

    def rejoined(self, inside: Collection[str]) -> Traced:
        """The model with each split product as it was traced, unless it or its addition is one of ``inside``."""
        products = {self.product_of(name): name for name in self.biased if name not in inside}
        joined = {name: self.biased[name] for product, name in products.items() if product not in inside}
        nodes = tuple(joined.get(node.name, node) for node in self.graph.nodes if products.get(node.name) not in joined)
        left = {name: node for name, node in self.biased.items() if name not in joined}
        return replace(self, graph=replace(self.graph, nodes=nodes), biased=left)

    def product_of(self, name: str) -> str:
        """The product that a split layer's addition reads."""
        return self.nodes[name].operands[0]

    def in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names in the graph's order."""
        chosen = set(names)
        return tuple(name for name in self.nodes if name in chosen)


def traced_of(source: str, captured: CaptureResult) -> Traced:
    """The model of a capture.

    Raises:
        UserFacingError: it cannot be traced, or a number of the call changes what is computed.
    """
    if captured.graph is None:
        message = f"the model cannot be traced: {captured.error}"
        raise UserFacingError(Failure(FailureCode.problem, message, captured.fix, captured.line))
    if captured.graph.specialised:
        message = f"the number `{captured.graph.specialised[0]}` of the call changes what is computed"
        raise UserFacingError(Failure(FailureCode.problem, message, "Write the number into the model."))
    known = parse_problem(captured.problem_source or source)
    graph, biased = split(upright(pairwise(captured.graph)))
    return Traced(graph, known, captured.problem_source is not None, captured.tied, biased)


def upright(graph: Graph) -> Graph:
    """The graph without pairs of transposes of the last two of three dimensions that have linear layers between them:
    ``linear(x.mT, w).mT`` is ``w @ x``, products that read and write ``x`` as it lies.

    A linear layer of a transposed tensor copies it, and so does its backward.
    """
    while (chain := next(_between_transposes(graph), None)) is not None:
        graph = _untransposed(graph, chain)
    return graph


def _between_transposes(graph: Graph) -> Iterator[list[Node]]:
    """Chains from one transpose to the next, in which each node is read by the following one alone."""
    users = dict[str, list[Node]]()
    for node in graph.nodes:
        for source in dict.fromkeys(node.operands):
            users.setdefault(source, []).append(node)
    for first in filter(_is_transpose, graph.nodes):
        chain = [first]
        while chain[-1].name not in graph.outputs and len(following := users.get(chain[-1].name, [])) == 1:
            node = following[0]
            if _is_transpose(node) and node.name not in graph.outputs and any(n.op == _LINEAR for n in chain):
                yield [*chain, node]
            if not (_is_large_layer(node, chain[-1]) or packet_of(node.op) in ACTIVATIONS):
                break
            chain.append(node)


def _is_transpose(node: Node) -> bool:
    places = {place % 3 for place in node.args[1:] if isinstance(place, int)}
    return node.op == "aten.transpose.int" and len(node.meta.shape) == 3 and places == {1, 2}


def _is_large_layer(node: Node, given: Node) -> bool:
    """Whether a node is a linear layer of another one, with matrices that fill the tiles of a product."""
    sizes = [size for size in (*given.meta.shape[1:], node.meta.shape[-1]) if isinstance(size, int)]
    reads = node.operands
    is_layer = node.op == _LINEAR and reads[0] == given.name and given.name not in reads[1:]
    return is_layer and len(sizes) == 3 and min(sizes) >= _FULL_TILE


def _untransposed(graph: Graph, chain: list[Node]) -> Graph:
    """The graph with a chain's nodes computed on what its first transpose reads; what reads its last one reads the one before."""
    nodes = {node.name: node for node in graph.nodes}
    made: dict[str, list[Node]] = {chain[0].name: [], chain[-1].name: []}
    given = chain[0].operands[0]
    for node in chain[1:-1]:
        batch, columns, rows = node.meta.shape
        meta = replace(node.meta, shape=(batch, rows, columns))
        changed = replace(node, args=(NodeRef(given), *node.args[1:]), meta=meta)
        made[node.name] = _from_the_left(changed, nodes) if node.op == _LINEAR else [changed]
        given = node.name
    ended = {chain[-1].name: given}
    new = (own for node in graph.nodes for own in made.get(node.name, [_renamed(node, ended)]))
    return replace(graph, nodes=tuple(new))


def _from_the_left(node: Node, nodes: Mapping[str, Node]) -> list[Node]:
    """A linear layer as its weight, the same for the whole batch, times what it is given, and the bias of each row."""
    given, weight, *bias = node.args
    assert isinstance(weight, NodeRef), "a weight is a tensor"
    known, dtype = nodes[weight.name].meta.shape, node.meta.dtype
    shape = (node.meta.shape[0], *known)
    shared = Node(
        _free(f"{node.name}_weights", nodes), "aten.expand.default", (weight, shape), TensorMeta(shape, dtype)
    )
    product = replace(node, op="aten.bmm.default", args=(NodeRef(shared.name), given))
    if not bias or bias[0] is None:
        return [shared, product]
    product = replace(product, name=_free(f"{node.name}_product", nodes))
    column = TensorMeta((known[0], 1), dtype)
    of_rows = Node(_free(f"{node.name}_column", nodes), "aten.unsqueeze.default", (bias[0], -1), column)
    added = replace(node, op="aten.add.Tensor", args=(NodeRef(product.name), NodeRef(of_rows.name)))
    return [shared, product, of_rows, added]


def _free(name: str, taken: Container[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    """The node with other names for what it reads."""

    def atom(value: Atom) -> Atom:
        return NodeRef(names.get(value.name, value.name)) if isinstance(value, NodeRef) else value

    def own(value: Arg) -> Arg:
        return tuple(map(atom, value)) if isinstance(value, tuple) else atom(value)

    return replace(node, args=tuple(map(own, node.args)), kwargs=tuple((key, own(value)) for key, value in node.kwargs))


def split(graph: Graph) -> tuple[Graph, dict[str, Node]]:
    """The graph with the bias of each linear layer added by a node of its own, which has the layer's name, and these layers.

    A kernel that reads the sum adds the bias for no bytes more, and its backward, which has the sum's gradient at hand, adds up
    the bias's. With torch that sum reads all of the gradient again.
    """
    names, nodes, biased = {node.name for node in graph.nodes}, list[Node](), dict[str, Node]()
    moved = {source for node in graph.nodes if packet_of(node.op) in MOVES for source in node.operands}
    for node in graph.nodes:
        has_bias = node.op == _LINEAR and len(node.args) == 3 and isinstance(node.args[2], NodeRef)
        if has_bias and node.name not in moved:  # where rows become columns, the sum is no longer over rows
            product = replace(node, name=f"{node.name}_product", args=node.args[:2])
            if product.name not in names:
                biased[node.name] = node
                nodes.append(product)
                node = replace(node, op="aten.add.Tensor", args=(NodeRef(product.name), node.args[2]))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes)), biased


def names_in(argument: Arg) -> set[str]:
    """The dimension names in an argument."""
    items = argument if isinstance(argument, tuple) else (argument,)
    return {name for item in items if isinstance(item, Expr) for name in re.findall(r"[A-Za-z_]\w*", item.text)}


def arguments(node: Node) -> Iterator[Arg]:
    """The arguments of a node, those by name after the others."""
    yield from node.args
    yield from (value for _, value in node.kwargs)
