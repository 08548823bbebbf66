"""Measured rows, as short as tests want them."""

from __future__ import annotations

from gpu_runner.contracts import Comparison, Pass, Timing, Word, Workload, WorkloadTiming


def row(
    time_us: float | None,
    floor_us: float | None = 100.0,
    timed_pass: Pass = Pass.forward,
    speedup: float | None = None,
    sizes: tuple[tuple[str, int], ...] = (("T", 4096), ("H", 8192)),
) -> WorkloadTiming:
    """Give one row: the candidate's time, the floor, and how many times as fast as the original."""
    compared = (
        () if speedup is None else (Comparison("candidate", "original", speedup, speedup, speedup, Word.faster, 12),)
    )
    timings = (Timing("candidate", time_us), Timing("original", None if time_us is None else time_us * (speedup or 1)))
    return WorkloadTiming(Workload(sizes), timed_pass, timings, 1, 1, floor_us, comparisons=compared)
