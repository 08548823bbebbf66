"""The contract of measuring."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpu_runner.contracts.problem import Workload
from gpu_runner.contracts.verify import CandidateSource

# An allocator rounds, and partial sums of a few programs weigh something only next to almost nothing.
MEMORY_SLACK_BYTES = 1 << 20


class Pass(StrEnum):
    """What is timed: the forward pass, the backward pass, or both."""

    forward = "forward"
    backward = "backward"
    full = "full"


class Word(StrEnum):
    """The verdict of a comparison."""

    faster = "faster"
    slower = "slower"
    same = "same"
    undecided = "undecided"


USUAL_PAIRS = 40  # of rounds, that one pass of one workload takes at most where a request names no length


@dataclass(frozen=True)
class RaceLength:
    """How many pairs of rounds one pass of one workload is worth at most."""

    workload: str  # its label
    timed_pass: Pass
    pairs: int


@dataclass(frozen=True)
class BenchmarkRequest:
    """Time a candidate against eager and ``torch.compile`` on the problem's workloads, and against ``original``, the kernel in the
    repository today (or at a merge base), with the original once more as the control of the same run.
    """

    problem_source: str
    candidate: CandidateSource
    dtype: str = "bfloat16"
    passes: tuple[Pass, ...] = (Pass.forward, Pass.backward, Pass.full)
    workloads: tuple[Workload, ...] = ()  # empty: the problem's
    budget_s: float = 60.0  # and about half as much where small differences have to hold in fresh processes
    original: CandidateSource | None = None
    contenders: tuple[str, ...] = ()  # of eager and torch_compile, those that take part, or original alone; empty: both
    standing: bool = (
        False  # the candidate is the existing kernel: where its values are wrong it keeps its time, with a note
    )
    lengths: tuple[RaceLength, ...] = ()  # by a kernel's own history; what is not named takes the usual one
    compiled: bool = False  # the candidate runs under ``torch.compile``, which fuses what it leaves to torch


@dataclass(frozen=True)
class Timing:
    """One contender on one workload and pass. None is what was not measured."""

    contender: (
        str  # candidate, original, control (the baseline once more, in a process of its own), eager, torch_compile
    )
    median_us: float | None
    low_us: float | None = None  # 20th percentile
    high_us: float | None = None  # 80th percentile
    blocks: int = 0
    peak_bytes: int | None = None
    error: str | None = None  # the contender could not run, such as torch.compile failing
    host_us: float | None = None  # what the host needs to queue the pass, median
    wrong: bool = False  # the error is that the results of its timed runs are wrong


@dataclass(frozen=True)
class Comparison:
    """One contender against one baseline: how many times as fast, the median of the log-ratios of paired blocks."""

    contender: str
    baseline: str
    speedup: float
    speedup_low: float  # 95% bootstrap interval
    speedup_high: float
    word: Word
    pairs: int  # blocks of each that were compared


@dataclass(frozen=True)
class Conditions:
    """What the GPU was doing while a row was measured. None: it could not be read."""

    sm_clock_mhz_low: int | None = None
    sm_clock_mhz_high: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    throttle_reasons: tuple[str, ...] = ()  # NVML's names, such as sw_power_cap
    dropped_blocks: int = 0  # rounds left out because the GPU was disturbed in them


@dataclass(frozen=True)
class WorkloadTiming:
    """All contenders on one workload and pass, with the floor."""

    workload: Workload
    timed_pass: Pass
    timings: tuple[Timing, ...]
    moved_bytes: int | None  # the fewest bytes that must move
    flops: int | None
    floor_us: float | None  # None where no bandwidth was measured
    speedup: float | None = None  # best baseline over candidate, median of per-block ratios
    speedup_low: float | None = None  # 95% bootstrap interval
    speedup_high: float | None = None
    against: str | None = None  # the baseline that ``speedup`` speaks of
    word: Word = Word.undecided
    fault: str | None = None  # such as a time under 90% of the floor
    comparisons: tuple[Comparison, ...] = ()  # of the candidate with every baseline
    control: Comparison | None = None  # a baseline with itself: what noise looks like in this very run
    conditions: Conditions | None = None
    bound: str | None = None  # memory or compute: which of the two floors is the longer

    @property
    def memory_ratio(self) -> float | None:
        """The candidate's peak memory over the original's, 1 within an allocator's rounding; None: not measured."""
        peaks = {timing.contender: timing.peak_bytes for timing in self.timings}
        mine, theirs = peaks.get("candidate"), peaks.get("original")
        if not mine or not theirs:
            return None
        return 1.0 if abs(mine - theirs) <= MEMORY_SLACK_BYTES else mine / theirs


@dataclass(frozen=True)
class BenchmarkResult:
    """``predicted``: there was no GPU, the times come from the roofline of a named one, and every report says so."""

    rows: tuple[WorkloadTiming, ...]
    predicted: bool
    gpu: str | None  # the GPU measured, or the one predicted for
    bandwidth_gbps: float | None
    host: tuple[tuple[str, str], ...] = ()  # torch, triton, driver, clocks, throttle reasons
    complete: bool = True  # False: the budget ended first
    notes: tuple[str, ...] = ()
    matrix_tflops: float | None = None  # the rate of a large matrix product in the dtype, measured in the same run
    vector_tflops: float | None = None  # float32 outside of the matrix units, measured in the same run
    untimed: tuple[Workload, ...] = ()  # those for which the budget had no time
