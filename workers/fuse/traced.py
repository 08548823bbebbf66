"""A traced model with what the cut asks of it: sizes, users, gradients, costs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from gpu_runner.contracts import CaptureResult, Expr, Graph, Node, NodeRef, Problem, parse_problem
from gpu_runner.contracts.expressions import evaluate_expression
from gpu_runner.contracts.graph import Arg, Dim
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.fuse.operators import LIBRARY, VIEWS, OperatorKind, Shape, bytes_of, flops_of, packet_of


@dataclass(frozen=True)
class Traced:
    """``problem`` is in the reference form, to which a KernelBench ``is_model`` was rewritten; ``tied`` are second names of
    its parameters, each with the first one.
    """

    graph: Graph
    problem: Problem
    is_model: bool = False
    tied: tuple[tuple[str, str], ...] = ()

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """The nodes by name, in an order in which they can be evaluated."""
        return {node.name: node for node in self.graph.nodes}

    @cached_property
    def users(self) -> dict[str, tuple[str, ...]]:
        """By name, the nodes that read a node, each once."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for node in self.graph.nodes:
            for source in dict.fromkeys(sources(node)):
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
            if flows and any(source in found for source in sources(node)):
                found.add(node.name)
        return frozenset(found)

    @cached_property
    def tuples(self) -> frozenset[str]:
        """The nodes whose value is several tensors."""
        return frozenset(sources(node)[0] for node in self.graph.nodes if node.op == "getitem")

    def kind(self, name: str) -> OperatorKind:
        """What may become of a node that is no input."""
        node = self.nodes[name]
        packet = packet_of(node.op)
        if packet in VIEWS:
            return OperatorKind.view
        if packet in LIBRARY or name in self.tuples or not node.op.startswith("aten."):
            return OperatorKind.library
        if not sources(node):
            return OperatorKind.made
        if set().union(*map(names_in, arguments(node))) - self.sizes.keys():
            return OperatorKind.scalar
        values = [self.nodes[source] for source in sources(node)]
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

    def flops(self, name: str) -> int:
        """Floating-point operations of a node."""
        node = self.nodes[name]
        return flops_of(packet_of(node.op), [self.shape(source) for source in sources(node)], self.shape(name))

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
    return Traced(captured.graph, known, captured.problem_source is not None, captured.tied)


def sources(node: Node) -> list[str]:
    """The names of the nodes that a node reads, as often as it does."""
    return [item.name for item in _atoms(node) if isinstance(item, NodeRef)]


def names_in(argument: Arg) -> set[str]:
    """The dimension names in an argument."""
    items = argument if isinstance(argument, tuple) else (argument,)
    return {name for item in items if isinstance(item, Expr) for name in re.findall(r"[A-Za-z_]\w*", item.text)}


def arguments(node: Node) -> Iterator[Arg]:
    """The arguments of a node, those by name after the others."""
    yield from node.args
    yield from (value for _, value in node.kwargs)


def _atoms(node: Node) -> Iterator[Arg]:
    for argument in arguments(node):
        yield from argument if isinstance(argument, tuple) else (argument,)
