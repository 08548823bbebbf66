"""Answers of the runner for the stages of optimize and bench, in which each number is chosen by the test."""

from __future__ import annotations

from typing import Any

from gpu_runner.contracts import (
    BenchmarkRequest,
    BenchmarkResult,
    Bound,
    CaptureResult,
    CaseOutcome,
    Comparison,
    Evidence,
    GpuPeaks,
    Pass,
    ProfileResult,
    RecordResult,
    Status,
    TestCase,
    TestsResult,
    Timing,
    TuneResult,
    Verdict,
    Word,
    Workload,
    WorkloadTiming,
)
from tests.workers.stages.context import Answers

SIZES = (Workload((("T", 4096), ("I", 11008))),)
PASSED = Verdict(Status.passed, quick=True)
WRONG = Verdict(Status.incorrect_values, (Evidence("values", "output 0 is off by 0.3"),))
TESTS_PASS = TestsResult(True, 0, (TestCase("test_geglu.py::test_values", CaseOutcome.passed, 0.1),), "1 passed", "")
PROFILED = ProfileResult(
    (),
    GpuPeaks("NVIDIA H200", 4240.0, 740.0, 60.0, 50 * 2**20, 132, "the maker's data sheet", measured=True),
    bounds=((Pass.forward, Bound.memory), (Pass.backward, Bound.latency)),
)
UNTRACED = CaptureResult(None, "it is not traced here")


def failing_tests(*names: str, passing: str = "test_values") -> TestsResult:
    """Give a run in which these failed and one passed."""
    cases = [TestCase(f"test_geglu.py::{name}", CaseOutcome.failed, 0.1, "wrong") for name in names]
    cases.append(TestCase(f"test_geglu.py::{passing}", CaseOutcome.passed, 0.1))
    return TestsResult(False, 1, tuple(cases), f"{len(names)} failed, 1 passed", "")


def benchmark(
    speedup: float = 1.0,
    over_floor: float = 2.0,
    *,
    memory: float = 1.0,
    predicted: bool = False,
    **passes: float,
) -> Any:
    """Give a measurement of all that a request asks for: so many times as fast as the original, by pass where it is said.

    The original takes 200 microseconds, ``over_floor`` times the floor, and is the candidate where it stands alone.
    """

    def answer(request: BenchmarkRequest) -> BenchmarkResult:
        compared = request.original is not None
        known = {p: passes.get(p.value, speedup) if compared else 1.0 for p in request.passes}
        rows = tuple(
            _row(workload, timed_pass, factor, over_floor, memory, compared, predicted)
            for workload in request.workloads or SIZES
            for timed_pass, factor in known.items()
        )
        return BenchmarkResult(rows, predicted, "NVIDIA H200", 4240.0)

    return answer


def _row(
    workload: Any, timed_pass: Pass, speedup: float, over_floor: float, memory: float, compared: bool, predicted: bool
) -> WorkloadTiming:
    if predicted:
        return WorkloadTiming(workload, timed_pass, (Timing("candidate", None),), 2**28, 2**24, 66.0)
    old, peak = 200.0, 2**30
    timings = [Timing("candidate", old / speedup, blocks=12, peak_bytes=int(peak * memory))]
    comparisons: tuple[Comparison, ...] = ()
    if compared:
        timings.append(Timing("original", old, blocks=12, peak_bytes=peak))
        word = Word.faster if speedup > 1.01 else Word.slower if speedup < 0.99 else Word.same
        comparisons = (Comparison("candidate", "original", speedup, speedup * 0.995, speedup * 1.005, word, 12),)
    floor_us = old / over_floor
    return WorkloadTiming(
        workload, timed_pass, tuple(timings), 2**28, 2**24, floor_us, comparisons=comparisons, bound="memory"
    )


def answers(**more: Any) -> Answers:
    """Give answers to an optimize job in which every variant is 1.2 times as fast as what stands."""
    plain: Answers = {
        "capture": UNTRACED,
        "record": RecordResult(()),
        "verify": PASSED,
        "benchmark": benchmark(1.2),
        "profile": PROFILED,
        "tune": TuneResult((), None),
        "tests": TESTS_PASS,
    }
    return plain | more
