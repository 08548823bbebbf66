"""One pass of one workload as a race: who takes part and is compared with whom, whose turn it is, who may leave
because its word is settled, and what came of it. Pure.

The unit of evidence is a pair of rounds, there and back (ABBA), so that a steady drift is nobody's. Looks at the evidence are few
and at fixed numbers of units, and an early word needs a wider interval than the last one: whoever looks until something shows,
finds something. Source: Pocock, Group sequential methods (1977), for why; the levels and looks are held by
tests/gpu_runner/benchmark/test_race.py, which counts false and missed words on simulated machines.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpu_runner.benchmark import estimate
from gpu_runner.benchmark.conditions import Reading, disturbed, typical_clock
from gpu_runner.contracts.benchmark import BenchmarkRequest, Comparison, Word
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.verify import CandidateSource

CANDIDATE, ORIGINAL, CONTROL = "candidate", "original", "control"
BASELINES = ("eager", "torch_compile")


@dataclass(frozen=True)
class Entry:
    """One contender. ``source`` None: the problem's reference."""

    name: str
    source: CandidateSource | None
    compiled: bool = False


def entries(request: BenchmarkRequest) -> tuple[Entry, ...]:
    """Give every contender of a request, the candidate first.

    The control is the original once more, in a process of its own; without an original the candidate itself, which is what can be
    afforded before anything was timed: eager often takes several times as long, and the noise of many kernels is not that of one.

    Raises:
        RunnerError: the request names a contender that does not exist.
    """
    unknown = [name for name in request.contenders if name not in (*BASELINES, ORIGINAL)]
    if unknown:
        raise RunnerError(f"there is no contender {unknown[0]!r}; known are {', '.join(BASELINES)}")
    again = request.candidate if request.original is None else request.original
    found = [Entry(CANDIDATE, request.candidate)]
    if request.original is not None:
        found.append(Entry(ORIGINAL, request.original))
    found.append(Entry(CONTROL, again))
    wanted = request.contenders or BASELINES
    return (*found, *(Entry(name, None, name == "torch_compile") for name in BASELINES if name in wanted))


def question(names: tuple[str, ...]) -> Question:
    """Give what the race between these contenders is to answer."""
    baselines = tuple(name for name in names if name not in (CANDIDATE, CONTROL))
    itself = ORIGINAL if ORIGINAL in names else CANDIDATE
    return Question(CANDIDATE, baselines, (CONTROL, itself) if CONTROL in names and itself in names else None)


def turns(contenders: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Give round after round, every second one in reverse (ABBA), the first place moving on, so that a drift cancels out."""
    order = list(contenders)
    while True:
        yield tuple(order)
        yield tuple(reversed(order))
        order = order[1:] + order[:1]


LOOKS = (10, 14, 20, 28, 40)  # units; with fewer than ten, no interval at the early level exists
LEAST_PAIRS = 6  # for a word: the median lies between the least and the most of so few at more than the last level
EARLY_LEVEL = 0.995
LAST_LEVEL = 0.95
RESOLUTION_US = 0.05  # of CUDA's events in practice; a smaller difference is the clock's

Blocks = list[list[float]]


@dataclass(frozen=True)
class Question:
    """Who is compared: the candidate with every baseline, and one contender with itself (``control`` is ``again``, ``itself``)."""

    candidate: str
    baselines: tuple[str, ...]
    control: tuple[str, str] | None = None


@dataclass
class Unit:
    """Two rounds: what everybody who took part measured in them, in microseconds, and how the GPU was after each."""

    turns: dict[str, Blocks] = field(default_factory=dict)
    readings: list[Reading | None] = field(default_factory=list)

    def time_of(self, name: str) -> float | None:
        """Give the time of one contender, of both its turns; None where it did not take both."""
        blocks = self.turns.get(name, [])
        return statistics.fmean(estimate.midmean(block) for block in blocks) if len(blocks) == 2 else None


class Race:
    """``order`` says who comes next; ``add`` takes what was measured, ``close`` ends the round."""

    def __init__(self, names: Sequence[str], question: Question, looks: tuple[int, ...] = LOOKS) -> None:
        self.names = tuple(names)
        self.question = question
        self.looks = looks
        self.units: list[Unit] = []
        self.settled: dict[str, Word] = {}  # at an early look
        self._looked = 0
        self.out: set[str] = set()
        self._orders: Iterator[tuple[str, ...]] = turns(self.names)
        self._open: Unit | None = None

    def order(self) -> tuple[str, ...]:
        """Give who takes turns in the next round, in order."""
        if self._open is None:
            self._open = Unit()
            self._racing = self._active()
        return tuple(name for name in next(self._orders) if name in self._racing and name not in self.out)

    def add(self, name: str, samples: list[float]) -> None:
        """Take one turn's samples. Units: microseconds."""
        assert self._open is not None
        self._open.turns.setdefault(name, []).append(samples)

    def drop(self, name: str) -> None:
        """Let a contender that failed take no more turns."""
        self.out.add(name)

    def close(self, reading: Reading | None) -> None:
        """End the round; at every second one the evidence may be looked at."""
        assert self._open is not None
        self._open.readings.append(reading)
        if len(self._open.readings) < 2:
            return
        self.units.append(self._open)
        self._open = None
        if self._looked < len(self.looks) - 1 and len(self.kept()) >= self.looks[self._looked]:
            self._looked += 1
            self._look()

    @property
    def between(self) -> bool:
        """Say whether a unit is complete, so that the race may be stopped here."""
        return self._open is None

    @property
    def finished(self) -> bool:
        """Say whether nothing more is to be learned: all words are settled, or the last look was reached."""
        if not self.between or len(self.units) < self.looks[0]:
            return False
        return len(self.units) >= self.looks[-1] or not self._unsettled()

    def kept(self) -> list[Unit]:
        """Give the units in which the GPU was not disturbed."""
        typical = typical_clock(reading for unit in self.units for reading in unit.readings)
        return [unit for unit in self.units if not any(disturbed(reading, typical) for reading in unit.readings)]

    def blocks(self, name: str) -> Blocks:
        """Give what counts of a contender: its undisturbed turns, or all where every one was disturbed."""
        kept = [block for unit in self.kept() for block in unit.turns.get(name, [])]
        return kept or [block for unit in self.units for block in unit.turns.get(name, [])]

    def comparisons(self) -> tuple[Comparison, ...]:
        """Give the candidate against every baseline that ran, with the words that hold in the end."""
        found = (self._compared(self.question.candidate, baseline) for baseline in self.question.baselines)
        return tuple(comparison for comparison in found if comparison is not None)

    def control(self) -> Comparison | None:
        """Give the A/A control, judged like any other comparison but against the margin alone."""
        pair = self.question.control
        if pair is None:
            return None
        units = self.kept()
        found = estimate.ratio_of_logs(self._logs(*pair))
        if found is None:
            return None
        said = estimate.word(found, self._resolution(units, pair[0]))
        return Comparison(*pair, found.median, found.low, found.high, said, len(self._logs(*pair)))

    def _compared(self, candidate: str, baseline: str) -> Comparison | None:
        logs = self._logs(candidate, baseline)
        shown = estimate.ratio_of_logs(logs)
        if shown is None:
            return None
        said = self._said(baseline, early=True) if baseline in self.settled else self._said(baseline, early=False)
        return Comparison(candidate, baseline, shown.median, shown.low, shown.high, said, len(logs))

    def _look(self) -> None:
        for baseline in self._unsettled():
            said = self._said(baseline, early=True)
            if said is not Word.undecided:
                self.settled[baseline] = said

    def _said(self, baseline: str, *, early: bool) -> Word:
        """Give the word; an early "same" does not lean on a control that more rounds would make narrower."""
        level = EARLY_LEVEL if early else LAST_LEVEL
        logs = self._logs(self.question.candidate, baseline)
        if len(logs) < LEAST_PAIRS:
            return Word.undecided
        found = estimate.ratio_of_logs(logs, level=level)
        most_same = estimate.MARGIN if early else estimate.MOST_SAME
        return estimate.word(found, self._noise(baseline, level), most_same)

    def _unsettled(self) -> list[str]:
        if self.question.candidate in self.out:
            return []
        return [name for name in self.question.baselines if name not in self.settled and name not in self.out]

    def _active(self) -> set[str]:
        """Give who is still needed: whoever has no word yet, the candidate, and the control with what it repeats."""
        if len(self.units) < self.looks[0]:
            return set(self.names)
        return {self.question.candidate, *self._unsettled(), *(self.question.control or ())}

    def _noise(self, baseline: str, level: float) -> float:
        """Give the log-ratio that a contender showed against itself in this very race."""
        units = self.kept()
        least = self._resolution(units, self.question.candidate)
        pair = self.question.control
        found = estimate.ratio_of_logs(self._logs(*pair), level=level) if pair else None
        if found is None:
            return max(least, estimate.control(self.blocks(baseline)))
        return max(least, found.bound)

    def _logs(self, contender: str, baseline: str) -> list[float]:
        """Give baseline time over contender time, of every undisturbed unit in which both took part."""
        pairs = [(unit.time_of(contender), unit.time_of(baseline)) for unit in self.kept()]
        return [math.log(base / own) for own, base in pairs if own and base]

    @staticmethod
    def _resolution(units: Sequence[Unit], name: str) -> float:
        times = [time for unit in units if (time := unit.time_of(name)) is not None]
        return math.log1p(RESOLUTION_US / statistics.median(times)) if times else 0.0
