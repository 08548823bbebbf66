"""What a problem must move and compute at each size, counted in its captured graph, and what bounds it on any GPU. Pure.

It is the roofline before anything runs. The rules are those of the runner's own (gpu_runner.benchmark.roofline), which counts on
real tensors; where no GPU is known, only what holds on all of them is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpu_runner.contracts import Bound, Expr, Graph, InputSpec, Node, Pass, Problem, Workload
from gpu_runner.contracts.expressions import evaluate_expression
from gpu_runner.contracts.graph import Dim
from workers.stages.headroom import LAUNCH_US
from workers.strategies.evidence import (
    BYTES,
    MOVING,
    PRODUCTS,
    REDUCTIONS,
    backward_nodes,
    forward_nodes,
    looked_up,
    operands,
    reached,
)

MOST_ROWS = 12
DTYPE = "bfloat16"  # in which the runner measures, where the problem takes it
# Operations a byte. Below the least of all GPUs memory bounds a pass, above the most its operations do.
# Source: rates over bandwidth of the GPUs in gpu_runner.peaks, from their makers' data sheets; a test holds them together.
VECTOR_RANGE = (9.3, 121.0)
MATRIX_RANGE = (37.0, 477.0)
FREE = MOVING | {"input", "upstream", "full", "arange", "cat", "gather", "index_select"}
# What the slowest memory of that table moves while a kernel is launched: less than this is bound by no byte.
LAUNCH_BYTES = 300e3 * LAUNCH_US


@dataclass(frozen=True)
class Counted:
    """The least work of one pass at one size. Matrix operations are those of products, vector ones one an element and step."""

    workload: Workload
    timed_pass: Pass
    moved_bytes: int
    matrix_flops: int
    vector_flops: int

    @property
    def bound(self) -> Bound:
        """Give what limits the pass on every GPU of the runner's table, unknown where they differ."""
        moved = max(1, self.moved_bytes)
        matrix, vector = self.matrix_flops / moved, self.vector_flops / moved
        if matrix < MATRIX_RANGE[0] and vector < VECTOR_RANGE[0] and moved < LAUNCH_BYTES:
            return Bound.latency
        if matrix < MATRIX_RANGE[0] and vector < VECTOR_RANGE[0]:
            return Bound.memory
        return Bound.compute if matrix > MATRIX_RANGE[1] or vector > VECTOR_RANGE[1] else Bound.unknown


def counted(problem: Problem, graph: Graph) -> tuple[Counted, ...]:
    """Give the least work of forward, and of backward where it has any of its own, at each size of a problem."""
    found = [row for size in problem.workloads for row in _at(problem, graph, size)]
    return tuple(found[: 2 * MOST_ROWS])


def bounds_of(rows: Iterable[Counted]) -> tuple[tuple[Pass, Bound], ...]:
    """Give what limits each pass at the size that moves most."""
    largest: dict[Pass, Counted] = {}
    for row in rows:
        if row.timed_pass not in largest or row.moved_bytes > largest[row.timed_pass].moved_bytes:
            largest[row.timed_pass] = row
    return tuple((timed_pass, row.bound) for timed_pass, row in largest.items())


def lines(rows: Sequence[Counted]) -> str:
    """Give the counts as text, a line a pass and size."""
    return "\n".join(_line(row) for row in rows[:MOST_ROWS])


def _line(row: Counted) -> str:
    products = f", {row.matrix_flops} of matrix products" if row.matrix_flops else ""
    bound = f"; bound by {row.bound.value}" if row.bound is not Bound.unknown else ""
    flops = row.matrix_flops + row.vector_flops
    where = f"{row.timed_pass.value} at {row.workload.label()}"
    return f"{where}: at least {row.moved_bytes} bytes, {flops} operations{products}{bound}"


def _at(problem: Problem, graph: Graph, workload: Workload) -> list[Counted]:
    dtype = workload.dtype or (DTYPE if DTYPE in problem.dtypes else next(iter(problem.dtypes), DTYPE))
    names: dict[str, float] = {s.name: s.default for s in problem.scalars if isinstance(s.default, int | float)}
    names |= {name: value for name, value in workload.scalars if isinstance(value, int | float)}
    size = _Size(graph, names | dict(workload.sizes), BYTES.get(dtype, 2))
    try:
        return [_forward(problem, size, workload), *_backward(problem, size, workload)]
    except (ValueError, OverflowError):  # a size is no arithmetic over names that are known: nothing is claimed of it
        return []


def _forward(problem: Problem, size: _Size, workload: Workload) -> Counted:
    nodes = forward_nodes(size.graph)
    moved = size.outputs() + size.read(problem, nodes)
    return Counted(workload, Pass.forward, moved, *size.operations(nodes))


def _backward(problem: Problem, size: _Size, workload: Workload) -> list[Counted]:
    """A loss may write its gradient in the forward pass, so that its backward pass alone has no least work."""
    graph = size.graph
    gradients = {name for name, node in graph.gradients if node is not None}
    if not gradients or all(not size.of[name].meta.shape for name in graph.outputs if name in size.of):
        return []
    needed = reached(graph, (node for _, node in graph.gradients))
    upstream = sum(size.elements(node) * size.element_bytes for node in needed if node.op == "upstream")
    written = sum(size.given(spec) for spec in problem.inputs if spec.name in gradients)
    moved = upstream + size.read(problem, needed) + written
    return [Counted(workload, Pass.backward, moved, *size.operations(backward_nodes(graph)))]


class _Size:
    """A graph at one size: how many elements and bytes its values have."""

    def __init__(self, graph: Graph, names: Mapping[str, float], element_bytes: int) -> None:
        self.graph, self.names, self.element_bytes = graph, names, element_bytes
        self.of = {node.name: node for node in graph.nodes}

    def elements(self, node: Node) -> int:
        return math.prod(self._number(dim) for dim in node.meta.shape)

    def given(self, spec: InputSpec) -> int:
        elements = math.prod(int(dim) if dim.isdigit() else self._number(Expr(dim)) for dim in spec.dims)
        return elements * (BYTES.get(spec.dtype, 4) if spec.dtype else self.element_bytes)

    def outputs(self) -> int:
        """Outputs have the dtype that the reference gives them for inputs of two bytes an element."""
        dtypes = dict(zip(self.graph.outputs, self.graph.output_dtypes, strict=False))
        sizes = (
            (self.elements(self.of[name]), dtypes.get(name, DTYPE)) for name in self.graph.outputs if name in self.of
        )
        return sum(number * (self.element_bytes if dtype == DTYPE else BYTES.get(dtype, 4)) for number, dtype in sizes)

    def read(self, problem: Problem, nodes: Iterable[Node]) -> int:
        """Each input once; of a table that is only looked up in, no more than the outputs hold."""
        there, tables = {node.name for node in nodes if node.op == "input"}, looked_up(self.graph)
        return sum(
            min(self.given(spec), self.outputs()) if spec.name in tables else self.given(spec)
            for spec in problem.inputs
            if spec.name in there
        )

    def operations(self, nodes: Iterable[Node]) -> tuple[int, int]:
        matrix = vector = 0
        for node in nodes:
            operand = next((self.of[name] for name in operands(node) if name in self.of), node)
            if node.op in PRODUCTS:
                matrix += 2 * self.elements(node) * math.prod(map(self._number, operand.meta.shape[-1:]))
            elif node.op not in FREE:
                vector += self.elements(operand if node.op in REDUCTIONS else node)
        return matrix, vector

    def _number(self, dim: Dim) -> int:
        return dim if isinstance(dim, int) else int(evaluate_expression(dim.text, self.names))
