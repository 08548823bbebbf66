"""What was measured of a kernel and what its problem tells: its distance from the floor, its bound, its rows. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import geometric_mean

from gpu_runner.contracts import BenchmarkResult, Bound, Graph, Node, Pass, Problem, Workload, WorkloadTiming
from workers.contracts import Scope
from workers.strategies.protocol import Situation, Stands

PASSES_OF_SCOPE = {
    Scope.general: (Pass.forward, Pass.backward, Pass.full),
    Scope.forward: (Pass.forward,),
    Scope.backward: (Pass.backward,),
}
ORIGINAL_NAMES = (
    "original",
    "candidate",
)  # v0 is timed as the original where it has that name, else as the only candidate


@dataclass(frozen=True)
class Worth:
    """The evidence for a try, and what may be gained."""

    trigger: str
    gain_high: float
    gain_low: float = 1.0


def no_forecast(situation: Situation) -> Worth | None:
    """No evidence: what only a kernel's source shows is unknown before there is one."""
    assert situation.stands is Stands.nothing, "a text is read"
    return None


def original_us(row: WorkloadTiming, *contenders: str) -> float | None:
    """The time of the original, or of the first of ``contenders`` that has one."""
    times = {timing.contender: timing.median_us for timing in row.timings}
    return next((times[name] for name in contenders or ORIGINAL_NAMES if times.get(name) is not None), None)


def floor_share(benchmark: BenchmarkResult, timed_pass: Pass) -> float | None:
    """The floor over the time of a pass, the geometric mean over the sizes; None where it was not measured."""
    shares: list[float] = []
    for row in benchmark.rows:
        time_us = original_us(row)
        if row.timed_pass is timed_pass and time_us and row.floor_us:
            shares.append(row.floor_us / time_us)
    return geometric_mean(shares) if shares else None


def headroom(situation: Situation) -> float:
    """How many times as fast a pass of the scope could be at most, by the pass that is farthest from its floor."""
    shares = [floor_share(situation.benchmark, p) for p in PASSES_OF_SCOPE[situation.scope]]
    known = [share for share in shares if share]
    return max((1.0 / share for share in known), default=math.inf)


def slowest_pass(situation: Situation) -> Pass | None:
    """The pass of the scope that is farthest from its floor."""
    shares = {p: floor_share(situation.benchmark, p) for p in (Pass.forward, Pass.backward)}
    known = {p: share for p, share in shares.items() if share and p in PASSES_OF_SCOPE[situation.scope]}
    return min(known, key=lambda p: known[p]) if known else None


def bound_of(situation: Situation) -> Bound:
    """The diagnosis of the pass that is farthest from its floor."""
    bounds = dict(situation.bounds)
    slowest = slowest_pass(situation)
    if slowest is not None and slowest in bounds:
        return bounds[slowest]
    return next(iter(bounds.values()), Bound.unknown)


def share_sentence(situation: Situation) -> str:
    """The shares of the floor as text; empty where nothing was measured."""
    shares = ((p, floor_share(situation.benchmark, p)) for p in (Pass.forward, Pass.backward))
    parts = [f"{p} runs at {share:.2f} of its floor" for p, share in shares if share]
    return ", ".join(parts)


PRODUCTS = frozenset({"matmul"})
REDUCTIONS = frozenset({"sum", "amax", "amin", "prod", "argmax"})
SCANS = frozenset({"cumsum", "cumprod"})
# Operators outside of the graph's vocabulary that go along one dimension, by their torch names.
ALONG_ROWS = frozenset({"logcumsumexp", "sort", "topk", "argsort", "cummax", "cummin"})
# The same values in another place, form or type: a kernel keeps none of them.
LOOKUPS = frozenset({"gather", "index_select"})
MOVING = frozenset({"cast", "reshape", "expand", "permute", "slice"})


def reached(graph: Graph, roots: Iterable[str | None]) -> tuple[Node, ...]:
    """The nodes that some depend on, themselves among them, in the order of the graph."""
    nodes = {node.name: node for node in graph.nodes}
    seen, waiting = set[str](), [root for root in roots if root is not None]
    while waiting:
        name = waiting.pop()
        if name not in seen and name in nodes:
            seen.add(name)
            waiting += nodes[name].operands
    return tuple(node for node in graph.nodes if node.name in seen)


def forward_nodes(graph: Graph) -> tuple[Node, ...]:
    """The nodes that the outputs depend on."""
    return reached(graph, graph.outputs)


def backward_nodes(graph: Graph) -> tuple[Node, ...]:
    """The nodes that only the gradients depend on."""
    forward = {node.name for node in forward_nodes(graph)}
    return tuple(node for node in reached(graph, (name for _, name in graph.gradients)) if node.name not in forward)


def looked_up(graph: Graph) -> frozenset[str]:
    """The inputs that are tables: of which single elements or rows are read alone, at places that another input names."""
    users: dict[str, set[str]] = {}
    for node in forward_nodes(graph):
        for place, name in enumerate(node.operands):
            users.setdefault(name, set()).add(node.op if place == 0 else "read whole")
    return frozenset(name for name in graph.inputs if users.get(name) and users[name] <= LOOKUPS)


def has_products(graph: Graph) -> bool:
    """Whether the outputs need a matrix product, of which tiles and not rows are the unit."""
    return any(node.op in PRODUCTS or _torch_name(node.op) in ("convolution", "bmm") for node in forward_nodes(graph))


def reduces_rows(graph: Graph) -> bool:
    """Whether forward goes along the last dimension of what it reads, so that a row is one piece of work."""
    ranks = {node.name: len(node.meta.shape) for node in graph.nodes}
    for node in forward_nodes(graph):
        if _torch_name(node.op) in ALONG_ROWS:
            return True
        if node.op in REDUCTIONS | SCANS and (operand := next(iter(node.operands), None)) is not None:
            dims = node.args[1] if len(node.args) > 1 else ()
            reduced = dims if isinstance(dims, tuple) else (dims,)
            if not reduced or {-1, ranks.get(operand, 0) - 1} & set(reduced):
                return True
    return False


def shared_by_rows(problem: Problem) -> tuple[str, ...]:
    """The inputs of which every row of the widest input reads all, such as a weight: they lack its leading dimensions."""
    widest = max((spec.dims for spec in problem.inputs), key=len, default=())
    return tuple(spec.name for spec in problem.inputs if spec.dims == widest[-1:] and len(widest) > 1)


def kept_for_backward(problem: Problem, graph: Graph) -> tuple[str, ...]:
    """The operators in forward whose results, of the size of the widest input, backward uses; outputs are there anyway."""
    nodes, forward = {node.name: node for node in graph.nodes}, {node.name for node in forward_nodes(graph)}
    rank = max((len(spec.dims) for spec in problem.inputs), default=0)
    wide = {_size(nodes[name]) for name in graph.inputs if name in nodes and len(nodes[name].meta.shape) == rank}
    there = {_moved(nodes, name) for name in (*graph.inputs, *graph.outputs)}
    used = (name for node in backward_nodes(graph) for name in node.operands if name in forward)
    sources = dict.fromkeys(_moved(nodes, name) for name in used)
    kept = [nodes[name] for name in sources if name in nodes and name not in there and _size(nodes[name]) in wide]
    return tuple(node.op for node in kept if node.op not in ("input", "full", "arange"))


def _moved(nodes: dict[str, Node], name: str) -> str:
    """The node whose values one has, seen through what only moves or widens them."""
    for _ in nodes:
        given = nodes[name].operands if name in nodes and nodes[name].op in MOVING else ()
        if not given:
            break
        name = given[0]
    return name


def _size(node: Node) -> tuple[str, ...]:
    return tuple(str(getattr(dim, "text", dim)) for dim in node.meta.shape)


def _torch_name(op: str) -> str:
    parts = op.split(".")
    return parts[1] if len(parts) > 1 else ""


BYTES = {
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}


def sizes_called(situation: Situation) -> str:
    """How to name the problem's sizes: before there is a kernel nothing was measured at them."""
    return "measured sizes" if situation.stands is Stands.kernel else "sizes"


def row_bytes(problem: Problem, workload: Workload) -> int:
    """The bytes of a row of a workload's largest input.

    Units: bytes.
    """
    dtype = workload.dtype or next(iter(problem.dtypes), "float32")
    return _dims(problem, workload)[-1] * BYTES.get(dtype, 4)


def rows_in(problem: Problem, workload: Workload) -> int:
    """The number of rows of a workload's largest input."""
    return math.prod(_dims(problem, workload)[:-1])


def _dims(problem: Problem, workload: Workload) -> list[int]:
    sizes = dict(workload.sizes)
    inputs = ([int(d) if d.isdigit() else sizes[d] for d in spec.dims] for spec in problem.inputs)
    return max(([*dims] or [1] for dims in inputs), key=math.prod)
