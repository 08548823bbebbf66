"""A model's kernel beside the compiler's: what the model is told was measured, and whether its kernel takes the place. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runner.contracts import BenchmarkResult, Comparison, Pass, Word, WorkloadTiming
from workers.stages.headroom import LAUNCH_US, geometric_mean, time_of
from workers.strategies.search import OTHER_METRIC, VARIANT, comparison_with_original

MOST_ROWS = 24
LEAST = 1.01  # as the runner's words: what is not beyond 1% is not worth one
Z_95 = 1.959964  # of a 95% interval of the normal distribution
OTHERS = ("eager", "torch_compile")
NAMES = {"torch_compile": "torch.compile"}
TERMS = (
    "Another kernel takes its place only where it is proved and, timed beside it in one run, is faster over all sizes, slower at "
    f"none in any pass, and needs at most {OTHER_METRIC - 1:.0%} more memory."
)


@dataclass(frozen=True)
class Weighed:
    """Whether a model's kernel takes the place of the compiler's; ``told`` says by what, in a part of a sentence."""

    taken: bool
    told: str
    median_us: float | None = None  # of both passes, over all sizes


def figures(measured: BenchmarkResult) -> str:
    """Give the times of the compiler's kernel at each size, their floors and what bounds them, in lines."""
    head = f"The compiled kernel, timed on {measured.gpu or 'a GPU'} at the problem's own sizes, with a cold cache."
    rates = [f"{measured.bandwidth_gbps:.0f} GB/s"] if measured.bandwidth_gbps else []
    rates += [f"{measured.matrix_tflops:.0f} TFLOP/s in matrix products"] if measured.matrix_tflops else []
    rates += [f"{measured.vector_tflops:.0f} TFLOP/s otherwise"] if measured.vector_tflops else []
    floor = f"The floor is the least time that this GPU needs, as measured: {', '.join(rates)}." if rates else ""
    launch = f"Beside it stands a launch of about {LAUNCH_US:.0f} us."
    rows = [_line(row) for row in measured.rows[:MOST_ROWS]]
    return "\n\n".join(("\n".join(filter(None, (head, floor, launch))), "\n".join(rows), TERMS))


def _line(row: WorkloadTiming) -> str:
    time_us = time_of(row)
    told = [f"{time_us:.1f} us" if time_us is not None else "not timed"]
    told += [f"floor {row.floor_us:.1f} us"] if row.floor_us else []
    told += [f"the floor is {row.floor_us / time_us:.0%} of its time"] if row.floor_us and time_us else []
    told += [f"bound by {row.bound}"] if row.bound else []
    others = ((name, time_of(row, name)) for name in OTHERS)
    told += [f"{NAMES.get(name, name)} {other:.1f} us" for name, other in others if other is not None]
    return f"{row.timed_pass.value} at {row.workload.label()}: {', '.join(told)}"


def weighed(measured: BenchmarkResult) -> Weighed:
    """Tell whether the candidate takes the original's place, by the runner's words in a run of both.

    It must have been timed at every size, be faster over all sizes with its whole interval, and slower at none in any pass.
    """
    median_us, lacking = _median_us(measured.rows), _lacking(measured)
    if lacking is not None:
        return Weighed(False, lacking, median_us)
    aimed = _aimed(measured.rows)
    compared = [found for row in aimed if (found := comparison_with_original(row)) is not None]
    told = f"{_times(*_over_sizes(compared))} {_sizes(aimed)}"
    against = _against(measured.rows)
    if against is not None:
        return Weighed(False, f"{told}, {against}", median_us)
    _, low, _ = _over_sizes(compared)
    if low <= LEAST or not any(found.word is Word.faster for found in compared):
        return Weighed(False, f"{told}, which is not faster beyond noise", median_us)
    return Weighed(True, told, median_us)


def _aimed(rows: Sequence[WorkloadTiming]) -> list[WorkloadTiming]:
    """Rows of both passes together; all rows where the two were not timed together, as where nothing has a gradient."""
    return [row for row in rows if row.timed_pass is Pass.full] or list(rows)


def _lacking(measured: BenchmarkResult) -> str | None:
    """Give why the run says nothing of the two."""
    if measured.predicted or not measured.rows:
        return "no GPU took part"
    for row in measured.rows:
        place = f"{row.timed_pass.value} at {row.workload.label()}"
        failed = [t.error for t in row.timings if t.contender == VARIANT and t.error is not None]
        if failed:
            return f"{place} failed while it was timed: {failed[0]}"
        if row.fault is not None:
            return f"the times of {place} cannot be right: {row.fault}"
        if comparison_with_original(row) is None:
            return f"{place} was not timed within the time"
    return None if measured.complete else "not all sizes were timed within the time"


def _against(rows: Sequence[WorkloadTiming]) -> str | None:
    """Give the first size at which it is worse."""
    for row in rows:
        found, place = comparison_with_original(row), f"{row.timed_pass.value} at {row.workload.label()}"
        if found is not None and found.word is Word.slower:
            return f"and slower in {place}: {_times(found.speedup, found.speedup_low, found.speedup_high)}"
        if row.memory_ratio is not None and row.memory_ratio > OTHER_METRIC:
            return f"and needs {row.memory_ratio:.2f} times the memory in {place}"
    return None


def _sizes(rows: Sequence[WorkloadTiming]) -> str:
    count = len({row.workload for row in rows})
    return f"over {count} sizes" if count > 1 else "at the one size"


def _times(speedup: float, low: float, high: float) -> str:
    return f"{speedup:.2f} times as fast ({low:.2f} to {high:.2f})"


def _over_sizes(compared: Sequence[Comparison]) -> tuple[float, float, float]:
    """Give the geometric mean with its 95% interval, taking the sizes as measured independently of each other."""
    if len(compared) == 1:
        return compared[0].speedup, compared[0].speedup_low, compared[0].speedup_high
    mean = geometric_mean([found.speedup for found in compared])
    errors = [math.log(found.speedup_high / found.speedup_low) / (2 * Z_95) for found in compared]
    half = Z_95 * math.sqrt(sum(error**2 for error in errors)) / len(errors)
    return mean, mean * math.exp(-half), mean * math.exp(half)


def _median_us(rows: Sequence[WorkloadTiming]) -> float | None:
    times = [time_of(row) for row in _aimed(rows)]
    known = [time_us for time_us in times if time_us]
    return geometric_mean(known) if known and len(known) == len(times) else None
