"""What measured rows come to: ratios with their intervals, by pass. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_runner.contracts import Comparison, Pass, Timing, Word, WorkloadTiming
from service.conversation.quantities import DASH, geometric_mean, ratio, usable

CANDIDATE = "candidate"
ORIGINAL = "original"
CONTROL = "control"
Z_95 = 1.959964  # of a 95% interval of the normal distribution


@dataclass(frozen=True)
class PassResult:
    """One pass over all its sizes. ``speedup`` is the geometric mean, None where nothing was compared."""

    timed_pass: Pass
    rows: tuple[WorkloadTiming, ...]
    speedup: float | None
    low: float | None  # 95% interval of the mean, from those of the rows
    high: float | None
    words: tuple[tuple[Word, int], ...]  # how many rows each, those that occur

    def count(self, word: Word) -> int:
        """Give how many rows got a word."""
        return dict(self.words).get(word, 0)


def by_pass(rows: Sequence[WorkloadTiming], baseline: str = ORIGINAL) -> tuple[PassResult, ...]:
    """Give every pass that was timed, in the order of the passes."""
    found = [(timed_pass, tuple(row for row in rows if row.timed_pass is timed_pass)) for timed_pass in Pass]
    return tuple(_pass_result(timed_pass, members, baseline) for timed_pass, members in found if members)


def mean_speedup(rows: Iterable[WorkloadTiming], baseline: str = ORIGINAL) -> float | None:
    """Give how many times as fast the candidate is, the geometric mean over rows; None where nothing was compared."""
    return geometric_mean(value for row in rows if (value := speedup(row, baseline)) is not None)


def overall_speedup(rows: Sequence[WorkloadTiming], baseline: str = ORIGINAL) -> float | None:
    """Give the one number for a kernel: of forward and backward together where that was timed, else of all that was."""
    together = [row for row in rows if row.timed_pass is Pass.full]
    return mean_speedup(together or rows, baseline)


def speedup(row: WorkloadTiming, baseline: str = ORIGINAL) -> float | None:
    """Give how many times as fast the candidate is on a row."""
    comparison = compared(row, baseline)
    if comparison is not None:
        return comparison.speedup
    old, new = median_us(row, baseline), median_us(row, CANDIDATE)
    return old / new if usable(old) and usable(new) and new > 0 else None


def compared(row: WorkloadTiming, baseline: str = ORIGINAL) -> Comparison | None:
    """Give the comparison of the candidate with a baseline."""
    return next((c for c in row.comparisons if (c.contender, c.baseline) == (CANDIDATE, baseline)), None)


def timing(row: WorkloadTiming, contender: str) -> Timing | None:
    """Give what was measured of a contender."""
    return next((timing for timing in row.timings if timing.contender == contender), None)


def median_us(row: WorkloadTiming, contender: str) -> float | None:
    """Give a contender's time."""
    found = timing(row, contender)
    return found.median_us if found is not None else None


def memory_ratio(rows: Iterable[WorkloadTiming]) -> float | None:
    """Give the candidate's peak memory over the original's, the geometric mean over rows; None where it was not measured."""
    return geometric_mean(known for row in rows if (known := row.memory_ratio) is not None)


def overall_memory(rows: Sequence[WorkloadTiming]) -> float | None:
    """Give the one ratio of peak memory for a kernel: of forward and backward together where that was measured, else of all.

    A pass on its own may hold next to nothing, and a mean over such a ratio and that of both passes is of no use to anyone.
    """
    together = [row for row in rows if row.timed_pass is Pass.full]
    return memory_ratio(together or rows)


def change(value: float | None) -> str:
    """Give a ratio as what changed, such as "+12%"."""
    if not usable(value):
        return DASH
    return "same" if abs(value - 1) < 0.005 else f"{value - 1:+.0%}"


def with_interval(value: float | None, low: float | None, high: float | None) -> str:
    """Give a speedup with its interval where there is one."""
    if not usable(value):
        return DASH
    return f"{ratio(value)} ({low:.2f} to {high:.2f})" if usable(low) and usable(high) else ratio(value)


def word_of(result: PassResult) -> str:
    """Give a pass over its sizes in a word, with the sizes that it is true of where it is not of all."""
    total = sum(count for _, count in result.words)
    told = [
        word.value if count == total else f"{word.value} on {count} of {total}"
        for word, count in result.words
        if word in (Word.slower, Word.faster)
    ]
    if told:
        return ", ".join(told)
    return (Word.undecided if result.count(Word.undecided) else Word.same).value if total else DASH


def _pass_result(timed_pass: Pass, rows: tuple[WorkloadTiming, ...], baseline: str) -> PassResult:
    comparisons = [found for row in rows if (found := compared(row, baseline)) is not None]
    counts = Counter(comparison.word for comparison in comparisons)
    low, high = _interval(comparisons)
    words = tuple((word, counts[word]) for word in Word if counts[word])
    return PassResult(timed_pass, rows, mean_speedup(rows, baseline), low, high, words)


def _interval(comparisons: Sequence[Comparison]) -> tuple[float | None, float | None]:
    """Give the interval of the geometric mean, taking the rows as measured independently of each other."""
    if not comparisons or any(min(c.speedup, c.speedup_low, c.speedup_high) <= 0 for c in comparisons):
        return None, None
    centre = sum(math.log(c.speedup) for c in comparisons) / len(comparisons)
    errors = [(math.log(c.speedup_high) - math.log(c.speedup_low)) / (2 * Z_95) for c in comparisons]
    half = Z_95 * math.sqrt(sum(error**2 for error in errors)) / len(errors)
    return math.exp(centre - half), math.exp(centre + half)
