"""How far a kernel is from the least time that the hardware allows, and the roofline of one that is not written. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean

from gpu_runner.contracts import (
    BenchmarkResult,
    Bound,
    Expr,
    Graph,
    InputSpec,
    Node,
    Pass,
    Problem,
    Workload,
    WorkloadTiming,
)
from gpu_runner.contracts.expressions import evaluate_expression
from gpu_runner.contracts.graph import Dim
from workers.contracts import Failure, FailureCode, PlannedStrategy, Scope, Target, UserFacingError
from workers.reports.variants import speedups
from workers.strategies.evidence import (
    BYTES,
    MOVING,
    PRODUCTS,
    REDUCTIONS,
    backward_nodes,
    forward_nodes,
    looked_up,
    reached,
)
from workers.strategies.fast_path import elements

# Under these factors on the floor there is nothing that a person would notice: over all sizes, and at any one.
NOTHING_OVER_ALL = 1.10
NOTHING_AT_ONE = 1.20
# What a kernel takes besides moving its bytes: seen as 4 to 7 us of the smallest forward passes on an H200 with a cold cache.
LAUNCH_US = 4.0
MOST_SIZES = 6
MOST_ELEMENTS = 2**29  # of one input: five contenders with a ring of inputs each must fit on one GPU
PASSES = {
    Scope.general: (Pass.forward, Pass.backward),
    Scope.forward: (Pass.forward,),
    Scope.backward: (Pass.backward,),
}


def time_of(row: WorkloadTiming, contender: str = "candidate") -> float | None:
    """A contender's median on a row. Units: microseconds; None where it was not measured."""
    return next((t.median_us for t in row.timings if t.contender == contender), None)


def headrooms(rows: Sequence[WorkloadTiming], scope: Scope, least_floor_us: float = 0.0) -> tuple[float, ...]:
    """Time over what can be reached, at least 1, of each row of the scope's passes.

    What can be reached is the floor and one launch. Both passes together count only where the backward pass alone has no
    floor, as that of a loss: else they add nothing to the two. Rows with a floor under ``least_floor_us`` are left out.
    """
    alone = {row.workload for row in rows if row.timed_pass is Pass.backward and row.floor_us}
    factors = []
    for row in rows:
        time_us = time_of(row)
        together = scope is Scope.general and row.timed_pass is Pass.full and row.workload not in alone
        looked_at = together or row.timed_pass in PASSES[scope]
        if looked_at and time_us is not None and row.floor_us and row.floor_us >= least_floor_us:
            factors.append(max(1.0, time_us / (row.floor_us + LAUNCH_US)))
    return tuple(factors)


def nothing_to_gain(measured: BenchmarkResult, scope: Scope) -> bool:
    """Whether what was measured is at the floor already; never on a prediction."""
    factors = headrooms(measured.rows, scope)
    return bool(factors) and not measured.predicted and _at_the_floor(factors)


def room(measured: BenchmarkResult) -> float | None:
    """Time over what can be reached, over all sizes, of a kernel that is not at its floor; None: it is, or unknown.

    It is the rule of ``nothing_to_gain``, at the sizes whose floor is longer than a launch. At the others launches take the time,
    of a pass often several: a small problem is no reason to ask a model for another kernel.
    """
    factors = headrooms(measured.rows, Scope.general, LAUNCH_US)
    if measured.predicted or not factors or _at_the_floor(factors):
        return None
    return geometric_mean(factors)


def _at_the_floor(factors: Sequence[float]) -> bool:
    return geometric_mean(factors) < NOTHING_OVER_ALL and max(factors) < NOTHING_AT_ONE


def target_met(rows: Iterable[WorkloadTiming], target: Target) -> bool:
    """Whether the candidate is under the target's time on every row that it speaks of, of which there must be one."""
    wanted = [
        row
        for row in rows
        if row.timed_pass.value == target.timed_pass and set(target.sizes) <= set(row.workload.sizes)
    ]
    times = [time_of(row) for row in wanted]
    return bool(times) and all(time_us is not None and time_us < target.below_us for time_us in times)


Sizes = tuple[tuple[str, int], ...]


def chosen_sizes(
    own: Sequence[Workload], recorded: Sequence[Workload], wanted: Sequence[Sizes] = ()
) -> tuple[Workload, ...]:
    """The problem's workloads and, as far as there is room, recorded ones: those with wanted sizes first, then the ends."""
    chosen = list(own[:MOST_SIZES])
    rest = [w for w in recorded if not any(_same_workload(w, known) for known in chosen)]
    order = [rest[-1 - i // 2] if i % 2 == 0 else rest[i // 2] for i in range(len(rest))]
    asked_for = [w for w in rest if any(set(sizes) <= set(w.sizes) for sizes in wanted)]
    for workload in (*asked_for, *order):
        if len(chosen) < MOST_SIZES and not any(_same_workload(workload, known) for known in chosen):
            chosen.append(workload)
    return tuple(chosen)


def with_sizes(
    chosen: Sequence[Workload], wanted: Sequence[Sizes], problem: Problem
) -> tuple[tuple[Workload, ...], tuple[Workload, ...]]:
    """Workloads among which each of the wanted sizes is, and those of them that were added for it.

    Raises:
        UserFacingError: a wanted size is larger than what is measured.
    """
    sizes_measured, added = list(chosen), list[Workload]()
    for sizes in dict.fromkeys(wanted):
        if any(set(sizes) <= set(workload.sizes) for workload in sizes_measured):
            continue
        first = chosen[0]
        new = replace(first, sizes=tuple((name, dict(sizes).get(name, size)) for name, size in first.sizes))
        if elements(problem, new) > MOST_ELEMENTS or min(size for _, size in new.sizes) < 1:
            message = f"`{new.label()}` cannot be measured: an input may have 1 to {MOST_ELEMENTS} elements"
            fix = (
                "Name other sizes in `--scope` or `--target`; with fewer of them the others are the problem's largest."
            )
            raise UserFacingError(Failure(FailureCode.refused, message, fix))
        sizes_measured.append(new)
        added.append(new)
    return tuple(sizes_measured), tuple(added)


def _same_workload(one: Workload, other: Workload) -> bool:
    same = set(one.sizes) == set(other.sizes) and set(one.scalars) == set(other.scalars)
    return same and (one.dtype is None or other.dtype is None or one.dtype == other.dtype)


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
        """What limits the pass on every GPU of the runner's table, unknown where they differ."""
        moved = max(1, self.moved_bytes)
        matrix, vector = self.matrix_flops / moved, self.vector_flops / moved
        if matrix < MATRIX_RANGE[0] and vector < VECTOR_RANGE[0] and moved < LAUNCH_BYTES:
            return Bound.latency
        if matrix < MATRIX_RANGE[0] and vector < VECTOR_RANGE[0]:
            return Bound.memory
        return Bound.compute if matrix > MATRIX_RANGE[1] or vector > VECTOR_RANGE[1] else Bound.unknown


def counted(problem: Problem, graph: Graph) -> tuple[Counted, ...]:
    """The least work of forward, and of backward where it has any of its own, at each size of a problem."""
    rows = [row for size in problem.workloads for row in _at(problem, graph, size)]
    return tuple(rows[: 2 * MOST_ROWS])


def bounds_of(rows: Iterable[Counted]) -> tuple[tuple[Pass, Bound], ...]:
    """What limits each pass at the size that moves most."""
    largest: dict[Pass, Counted] = {}
    for row in rows:
        if row.timed_pass not in largest or row.moved_bytes > largest[row.timed_pass].moved_bytes:
            largest[row.timed_pass] = row
    return tuple((timed_pass, row.bound) for timed_pass, row in largest.items())


def lines(rows: Sequence[Counted]) -> str:
    """The counts as text, a line a pass and size."""
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
    gradient_bytes = sum(size.given(spec) for spec in problem.inputs if spec.name in gradients)
    moved = upstream + size.read(problem, needed) + gradient_bytes
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
            operand = next((self.of[name] for name in node.operands if name in self.of), node)
            if node.op in PRODUCTS:
                matrix += 2 * self.elements(node) * math.prod(map(self._number, operand.meta.shape[-1:]))
            elif node.op not in FREE:
                vector += self.elements(operand if node.op in REDUCTIONS else node)
        return matrix, vector

    def _number(self, dim: Dim) -> int:
        return dim if isinstance(dim, int) else int(evaluate_expression(dim.text, self.names))


def learnings(rows: Iterable[WorkloadTiming]) -> str:
    """Each pass's speedup over the original: the geometric mean and the range over sizes."""
    rows = tuple(rows)
    parts = []
    for timed_pass in Pass:
        ratios = speedups(rows, timed_pass)
        if ratios:
            spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
            parts.append(f"{timed_pass.value} {geometric_mean(ratios):.2f}x{spread}")
    return "; ".join(parts) if parts else "No pass could be compared."


def predicted_learnings(planned: PlannedStrategy) -> str:
    """The learnings where nothing was timed."""
    expected = "what it gains is not known" if planned.gain is None else f"the expectation stays {planned.gain}"
    return f"The values hold. Nothing was timed here; {expected}."
