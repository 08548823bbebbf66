"""The contract of profiling: where the time of a kernel goes, and what bounds it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.problem import Workload
from gpu_runner.contracts.verify import CandidateSource


class Bound(StrEnum):
    """What limits a pass."""

    memory = "memory"  # bytes over the bandwidth
    compute = "compute"  # operations over their rate
    latency = "latency"  # neither is busy: too little work in flight, or launches and waiting
    locality = "locality"  # more bytes move than must: the same data is fetched again
    unknown = "unknown"


@dataclass(frozen=True)
class ProfileRequest:
    """Profile a candidate on workloads: analytically everywhere, by Nsight Compute where ``ncu`` is found and may be used.

    ``gpu`` names the GPU to predict for where none is there (a name of the runner's table, or an architecture such as sm_90).
    """

    problem_source: str
    candidate: CandidateSource
    dtype: str = "bfloat16"
    workloads: tuple[Workload, ...] = ()  # empty: the problem's
    passes: tuple[Pass, ...] = (Pass.forward, Pass.backward)
    gpu: str | None = None
    counters: bool = True  # False: the analytic part alone
    budget_s: float = 120.0


@dataclass(frozen=True)
class Roofline:
    """The analytic part for one workload and pass. None: not known."""

    workload: Workload
    timed_pass: Pass
    moved_bytes: int | None  # the fewest bytes that must move
    flops: int | None
    matrix_flops: int | None  # those of them that are matrix products
    intensity: float | None  # flops per byte
    memory_us: float | None  # bytes over bandwidth
    compute_us: float | None  # operations over their rate
    floor_us: float | None  # the longer of the two
    bound: Bound


@dataclass(frozen=True)
class Stall:
    """Why warps waited; ``share`` of all samples, 0 to 1."""

    reason: str
    share: float


@dataclass(frozen=True)
class KernelCounters:
    """What Nsight Compute measured of one launch. Shares are of the unit's peak, 0 to 1; None: not among its metrics."""

    kernel: str
    timed_pass: Pass
    workload: Workload
    own: bool  # a kernel of the candidate's files, not torch's
    duration_us: float | None
    dram_share: float | None
    l2_share: float | None
    sm_share: float | None
    tensor_share: float | None
    dram_bytes: int | None
    l2_hit_share: float | None
    occupancy: float | None  # achieved
    registers: int | None  # per thread
    spilled_bytes: int | None
    grid: int | None  # programs
    threads: int | None  # per program
    stalls: tuple[Stall, ...] = ()  # the largest first


@dataclass(frozen=True)
class Finding:
    """A rule that applies: its name in the runner's table, the value and the threshold."""

    rule: str
    metric: str
    value: float
    threshold: float
    bound: Bound
    subject: str  # the kernel, or the pass


@dataclass(frozen=True)
class GpuPeaks:
    """What a GPU can do. ``measured`` False: by its maker's data sheet, which ``source`` names."""

    name: str
    bandwidth_gbps: float
    matrix_tflops: float | None
    vector_tflops: float | None
    l2_bytes: int
    multiprocessors: int | None
    source: str
    measured: bool


@dataclass(frozen=True)
class ProfileResult:
    """``counters`` is empty where Nsight Compute could not be used; ``counters_error`` has the reason and the fix."""

    rooflines: tuple[Roofline, ...]
    gpu: GpuPeaks
    counters: tuple[KernelCounters, ...] = ()
    findings: tuple[Finding, ...] = ()
    bounds: tuple[tuple[Pass, Bound], ...] = ()  # the diagnosis of each pass
    counters_error: str | None = None
    host: tuple[tuple[str, str], ...] = ()
    complete: bool = True
    counters_csv: str = ""  # Nsight Compute's own table, a launch a line; kernel names in it are untrusted text
