"""The contract of measuring."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpu_runner.contracts.problem import Workload
from gpu_runner.contracts.verify import CandidateSource


class Pass(StrEnum):
    """What is timed: the forward pass, the backward pass, or both."""

    forward = "forward"
    backward = "backward"
    full = "full"


class Word(StrEnum):
    """A comparison in one word."""

    faster = "faster"
    slower = "slower"
    same = "same"
    undecided = "undecided"


@dataclass(frozen=True)
class BenchmarkRequest:
    """Time a candidate beside eager and ``torch.compile`` on the problem's workloads."""

    problem_source: str
    candidate: CandidateSource
    dtype: str = "bfloat16"
    passes: tuple[Pass, ...] = (Pass.forward, Pass.backward, Pass.full)
    workloads: tuple[Workload, ...] = ()  # empty: the problem's
    budget_s: float = 60.0


@dataclass(frozen=True)
class Timing:
    """One contender on one workload and pass. None is what was not measured."""

    contender: str  # candidate, eager, torch_compile
    median_us: float | None
    low_us: float | None = None  # 20th percentile
    high_us: float | None = None  # 80th percentile
    blocks: int = 0
    peak_bytes: int | None = None
    error: str | None = None  # the contender could not run, such as torch.compile failing


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


@dataclass(frozen=True)
class BenchmarkResult:
    """``predicted`` where no GPU was there: the times come from the roofline of a named GPU, and every report says so."""

    rows: tuple[WorkloadTiming, ...]
    predicted: bool
    gpu: str | None  # the GPU measured, or the one predicted for
    bandwidth_gbps: float | None
    host: tuple[tuple[str, str], ...] = ()  # torch, triton, driver, clocks, throttle reasons
    complete: bool = True  # False: the budget ended first
    notes: tuple[str, ...] = ()
