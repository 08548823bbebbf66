"""One pass of one workload as a race: who takes part and is compared with whom, whose turn it is, who may leave
because its verdict is decided, and the result. Pure.

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
from gpu_runner.benchmark.conditions import GpuReading, disturbed, typical_clock
from gpu_runner.contracts.benchmark import USUAL_PAIRS, BenchmarkRequest, Comparison, Word
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.verify import CandidateSource

CANDIDATE, ORIGINAL, CONTROL = "candidate", "original", "control"
BASELINES = ("eager", "torch_compile")


@dataclass(frozen=True)
class RaceEntry:
    """One contender. ``source`` None: the problem's reference."""

    name: str
    source: CandidateSource | None
    compiled: bool = False


def entries(request: BenchmarkRequest) -> tuple[RaceEntry, ...]:
    """The contenders of a request, the candidate first.

    The control is the original once more, in a process of its own; without an original the candidate itself, which is what can be
    afforded before anything was timed: eager often takes several times as long, and the noise of many kernels is not that of one.

    Raises:
        RunnerError: the request names a contender that does not exist.
    """
    unknown = [name for name in request.contenders if name not in (*BASELINES, ORIGINAL)]
    if unknown:
        raise RunnerError(f"there is no contender {unknown[0]!r}; known are {', '.join(BASELINES)}")
    again = request.candidate if request.original is None else request.original
    entered = [RaceEntry(CANDIDATE, request.candidate, request.compiled)]
    if request.original is not None:
        entered.append(RaceEntry(ORIGINAL, request.original))
    entered.append(RaceEntry(CONTROL, again, request.compiled and request.original is None))
    wanted = request.contenders or BASELINES
    return (*entered, *(RaceEntry(name, None, name == "torch_compile") for name in BASELINES if name in wanted))


def question(names: tuple[str, ...]) -> RaceQuestion:
    """The comparisons that a race between these contenders decides."""
    baselines = tuple(name for name in names if name not in (CANDIDATE, CONTROL))
    itself = ORIGINAL if ORIGINAL in names else CANDIDATE
    return RaceQuestion(CANDIDATE, baselines, (CONTROL, itself) if CONTROL in names and itself in names else None)


def turns(contenders: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The order of each round, every second one reversed (ABBA) and the first place rotating, so that drift cancels out."""
    order = list(contenders)
    while True:
        yield tuple(order)
        yield tuple(reversed(order))
        order = order[1:] + order[:1]


FIRST_LOOK, MOST_UNITS = 10, 160  # with fewer than ten no interval at the early level exists
LOOK_COUNT = 5


def looks_of(units: int) -> tuple[int, ...]:
    """When the evidence of a race of so many units at most is looked at, each time after the same factor more."""
    most = min(MOST_UNITS, max(FIRST_LOOK, units))
    steps = LOOK_COUNT - 1
    places = (round(FIRST_LOOK * (most / FIRST_LOOK) ** (step / steps)) for step in range(LOOK_COUNT))
    return tuple(dict.fromkeys(places))


LOOKS = looks_of(USUAL_PAIRS)  # 10, 14, 20, 28, 40
LEAST_PAIRS = 6  # for a verdict: the median lies between the least and the most of so few at more than the last level
EARLY_LEVEL = 0.995
LAST_LEVEL = 0.95
RESOLUTION_US = 0.05  # of CUDA's events in practice; a smaller difference is the clock's

Blocks = list[list[float]]


@dataclass(frozen=True)
class RaceQuestion:
    """Who is compared: the candidate with every baseline, and one contender with itself (``control`` is ``again``, ``itself``)."""

    candidate: str
    baselines: tuple[str, ...]
    control: tuple[str, str] | None = None


@dataclass
class RaceUnit:
    """Two rounds: what everybody who took part measured in them, in microseconds, and how the GPU was after each."""

    turns: dict[str, Blocks] = field(default_factory=dict)
    readings: list[GpuReading | None] = field(default_factory=list)

    def time_of(self, name: str) -> float | None:
        """A contender's time over both its turns; None where it did not take both."""
        blocks = self.turns.get(name, [])
        return statistics.fmean(estimate.midmean(block) for block in blocks) if len(blocks) == 2 else None


class Race:
    """``order`` is the next round's, ``add`` takes a turn's samples, ``close`` ends the round."""

    def __init__(self, names: Sequence[str], question: RaceQuestion, looks: tuple[int, ...] = LOOKS) -> None:
        self.names = tuple(names)
        self.question = question
        self.looks = looks
        self.units: list[RaceUnit] = []
        self.decided: dict[str, Word] = {}  # at an early look
        self._looked = 0
        self.out: set[str] = set()
        self._orders: Iterator[tuple[str, ...]] = turns(self.names)
        self._open: RaceUnit | None = None

    def order(self) -> tuple[str, ...]:
        """The contenders of the next round, in order."""
        if self._open is None:
            self._open = RaceUnit()
            self._racing = self._active()
        return tuple(name for name in next(self._orders) if name in self._racing and name not in self.out)

    def add(self, name: str, samples: list[float]) -> None:
        """Add one turn's samples. Units: microseconds."""
        assert self._open is not None
        self._open.turns.setdefault(name, []).append(samples)

    def drop(self, name: str) -> None:
        """Exclude a contender that failed."""
        self.out.add(name)

    def close(self, reading: GpuReading | None) -> None:
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
        """Whether a unit is complete, so that the race may be stopped here."""
        return self._open is None

    @property
    def finished(self) -> bool:
        """Whether every verdict is decided, or the last look was reached."""
        if not self.between or len(self.units) < self.looks[0]:
            return False
        return len(self.units) >= self.looks[-1] or not self._unsettled()

    def kept(self) -> list[RaceUnit]:
        """The undisturbed units."""
        typical = typical_clock(reading for unit in self.units for reading in unit.readings)
        return [unit for unit in self.units if not any(disturbed(reading, typical) for reading in unit.readings)]

    def blocks(self, name: str) -> Blocks:
        """A contender's undisturbed turns, or all where every one was disturbed."""
        kept = [block for unit in self.kept() for block in unit.turns.get(name, [])]
        return kept or [block for unit in self.units for block in unit.turns.get(name, [])]

    def comparisons(self) -> tuple[Comparison, ...]:
        """The candidate against every baseline that ran, with the final verdicts."""
        compared = (self._compared(self.question.candidate, baseline) for baseline in self.question.baselines)
        return tuple(comparison for comparison in compared if comparison is not None)

    def control(self) -> Comparison | None:
        """The A/A control, judged as any comparison but by the margin alone."""
        pair = self.question.control
        if pair is None:
            return None
        units = self.kept()
        interval = estimate.ratio_of_logs(self._logs(*pair))
        if interval is None:
            return None
        word = estimate.word(interval, self._resolution(units, pair[0]))
        return Comparison(*pair, interval.median, interval.low, interval.high, word, len(self._logs(*pair)))

    def _compared(self, candidate: str, baseline: str) -> Comparison | None:
        logs = self._logs(candidate, baseline)
        shown = estimate.ratio_of_logs(logs)
        if shown is None:
            return None
        word = self._word(baseline, early=True) if baseline in self.decided else self._word(baseline, early=False)
        return Comparison(candidate, baseline, shown.median, shown.low, shown.high, word, len(logs))

    def _look(self) -> None:
        for baseline in self._unsettled():
            word = self._word(baseline, early=True)
            if word is not Word.undecided:
                self.decided[baseline] = word

    def _word(self, baseline: str, *, early: bool) -> Word:
        """The verdict; an early "same" does not rest on a control that more rounds would narrow."""
        level = EARLY_LEVEL if early else LAST_LEVEL
        logs = self._logs(self.question.candidate, baseline)
        if len(logs) < LEAST_PAIRS:
            return Word.undecided
        interval = estimate.ratio_of_logs(logs, level=level)
        most_same = estimate.MARGIN if early else estimate.MOST_SAME
        if estimate.comes_in_bursts(self._turn_logs(self.question.candidate, baseline)):
            return Word.undecided
        return estimate.word(interval, self._noise(baseline, level), most_same)

    def _unsettled(self) -> list[str]:
        if self.question.candidate in self.out:
            return []
        return [name for name in self.question.baselines if name not in self.decided and name not in self.out]

    def _active(self) -> set[str]:
        """The contenders still needed: the undecided ones, the candidate, and the control with what it repeats."""
        if len(self.units) < self.looks[0]:
            return set(self.names)
        return {self.question.candidate, *self._unsettled(), *(self.question.control or ())}

    def _noise(self, baseline: str, level: float) -> float:
        """The log-ratio of a contender against itself in this race."""
        units = self.kept()
        least = self._resolution(units, self.question.candidate)
        pair = self.question.control
        interval = estimate.ratio_of_logs(self._logs(*pair), level=level) if pair else None
        if interval is None:
            return max(least, estimate.control(self.blocks(baseline)))
        return max(least, interval.bound)

    def _logs(self, contender: str, baseline: str) -> list[float]:
        """Log of baseline time over contender time, for every undisturbed unit with both."""
        pairs = [(unit.time_of(contender), unit.time_of(baseline)) for unit in self.kept()]
        return [math.log(base / own) for own, base in pairs if own and base]

    def _turn_logs(self, contender: str, baseline: str) -> list[float]:
        """The same of every turn apart: a unit's time hides that one of its two turns was undisturbed."""
        turns_of_both = [(unit.turns.get(contender, []), unit.turns.get(baseline, [])) for unit in self.kept()]
        pairs = [pair for both in turns_of_both for pair in zip(*both, strict=False)]
        times = [(estimate.midmean(own), estimate.midmean(base)) for own, base in pairs]
        return [math.log(base / own) for own, base in times if own and base]

    @staticmethod
    def _resolution(units: Sequence[RaceUnit], name: str) -> float:
        times = [time for unit in units if (time := unit.time_of(name)) is not None]
        return math.log1p(RESOLUTION_US / statistics.median(times)) if times else 0.0
