"""Which of the commits in a range made a kernel slower. Pure but for the comparison that is asked for.

Each step holds a commit against the last one that is known to be good, in one interleaved run of both, so that no step depends on
a number of another day. A range may hold several culprits: after one is found the rest is held against it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from gpu_runner.contracts import BenchmarkResult, Status, Word
from workers.nightly.detection import WRONG

LARGER = 1.01  # peak memory, new over old
TIME, MEMORY = "time", "peak memory"
Row = tuple[str, str, str]  # time or peak memory, pass, size


class StepOutcome(StrEnum):
    """What a comparison of two commits came to."""

    slower = "slower"  # or larger in memory, or wrong where values are searched
    same = "same"  # or faster
    undecided = "undecided"
    broken = "broken"  # one of the two does not build, or the kernel is not there


Compare = Callable[[int, int], StepOutcome]  # the older and the newer commit, by their places in the range


@dataclass(frozen=True)
class Culprit:
    """The change lies behind ``good`` and not behind ``bad``: in one commit, or in several where those between cannot be judged."""

    good: int
    bad: int
    unjudged: tuple[int, ...] = ()  # between the two: broken, or undecided


@dataclass(frozen=True)
class Bisected:
    """``whole`` is the comparison of the last commit with the first; without ``slower`` there is nothing to look for."""

    whole: StepOutcome
    culprits: tuple[Culprit, ...]


def bisect(count: int, compare: Compare) -> Bisected:
    """Find the culprits among commits 0 to ``count - 1``, of which 0 is good. About log2 of the count comparisons for each."""
    last = count - 1
    whole = compare(0, last) if last > 0 else StepOutcome.same
    culprits: list[Culprit] = []
    good, remaining = 0, whole
    while remaining is StepOutcome.slower:
        culprit = _first(good, last, compare)
        culprits.append(culprit)
        good = culprit.bad
        remaining = compare(good, last) if good < last else StepOutcome.same
    return Bisected(whole, tuple(culprits))


def _first(good: int, bad: int, compare: Compare) -> Culprit:
    """Find the first commit that is slower than ``good``; ``bad`` is."""
    low, high = good, bad
    unjudged: set[int] = set()
    while left := [place for place in range(low + 1, high) if place not in unjudged]:
        # The nearest to the middle that has not been tried: what cannot be judged is stepped around.
        middle = min(left, key=lambda place: (abs(2 * place - low - high), place))
        step = compare(good, middle)
        if step is StepOutcome.slower:
            high = middle
        elif step is StepOutcome.same:
            low = middle
        else:
            unjudged.add(middle)
    return Culprit(low, high, tuple(sorted(place for place in unjudged if low < place < high)))


# A commit with these does not build; where the bad end builds, its kernel is not to blame for what is searched.
UNBUILT = (Status.compile_error, Status.launch_error)


def value_step(old: Status | None, new: Status | None, bad: Status | None) -> StepOutcome:
    """Whether values became wrong from one commit to another, by the verdicts on both; ``bad`` is that on the bad end."""

    def is_wrong(status: Status | None) -> bool:
        return status in WRONG and (status in UNBUILT) == (bad in UNBUILT)

    if is_wrong(new):
        return StepOutcome.same if is_wrong(old) else StepOutcome.slower
    return StepOutcome.same if new is Status.passed else StepOutcome.broken


def worse_rows(result: BenchmarkResult | None) -> frozenset[Row]:
    """What is slower or larger; of a kernel that could not be measured, nothing."""
    return frozenset(row for row, word in _words(result).items() if word is Word.slower)


def step_of(result: BenchmarkResult | None, rows: frozenset[Row] | None = None) -> StepOutcome:
    """What a comparison says about the rows that count, by default all; None: one of the two commits could not be measured."""
    words = _words(result)
    wanted = frozenset(words) if rows is None else rows
    counted = [words[row] for row in sorted(wanted) if row in words]
    if any(word is Word.slower for word in counted):
        return StepOutcome.slower
    if result is None or len(counted) < len(wanted):
        return StepOutcome.broken
    return StepOutcome.undecided if any(word is Word.undecided for word in counted) else StepOutcome.same


def _words(result: BenchmarkResult | None) -> dict[Row, Word]:
    words: dict[Row, Word] = {}
    for row in result.rows if result is not None else ():
        place = (row.timed_pass.value, row.workload.label())
        for one in row.comparisons:
            if (one.contender, one.baseline) == ("candidate", "original"):
                words[TIME, *place] = one.word
        if row.memory_ratio is not None:
            words[MEMORY, *place] = Word.slower if row.memory_ratio > LARGER else Word.same
    return words
