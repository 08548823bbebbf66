"""The search for settings: line by line from the default, early stopping, diagonals, a few at random, and a last round;
then the final between the best and the default, in paired ABBA blocks, where the default stays unless it loses. Pure.

What it costs to try is asked of a ``Meter``; in tests that is a function, on a GPU a child.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpu_runner.benchmark import estimate
from gpu_runner.benchmark.estimate import Ratio
from gpu_runner.contracts.benchmark import Word
from gpu_runner.tuning.settings import DEFAULT, Settings, SettingSpace, dropped, predicted_log, replaced

BLOCKS = 3  # of a setting that is not given up early
CLEARLY_WORSE = (1.10, 1.03)  # times the best, after the first and after the second block
BETTER = 0.995  # times the best: less is noise
AS_GOOD = 1.005  # settings up to here count as equal, and the simplest of them is taken
PATIENCE = 1.02  # a step this much worse does not yet end a line
MOST_ROUNDS = 3
MOST_DIAGONALS = 6
MOST_RANDOM = 3
FINALISTS = 3
LAST_BLOCKS = 5
LAST_SHARE = 0.2  # of the time, kept for the last round


class Meter(Protocol):
    """Tries settings for real."""

    def attempt(self, settings: Settings) -> str | None:
        """Compile and run once; gives why it cannot be used, None where it can."""

    def block(self, settings: Settings) -> list[float] | None:
        """Times of a few runs in microseconds; None where it failed."""

    def left_s(self) -> float:
        """Time left for the search."""


@dataclass
class TriedSettings:
    """Settings that were tried: what each block took, or why they cannot be used."""

    settings: Settings
    blocks: list[list[float]] = field(default_factory=list)
    failure: str | None = None

    @property
    def cost(self) -> float:
        """The typical time; infinite where nothing was measured."""
        if self.failure is not None or not self.blocks:
            return math.inf
        return statistics.median(statistics.median(block) for block in self.blocks)


@dataclass
class SettingSearch:
    """One search. ``hints`` are settings that won elsewhere; ``trials`` are all settings tried."""

    space: SettingSpace
    meter: Meter
    hints: Sequence[Settings] = ()
    seed: int = 0
    trials: dict[Settings, TriedSettings] = field(default_factory=dict)
    complete: bool = True
    _whole_s: float = 0.0

    def run(self) -> Settings:
        """The best settings; the default where nothing is better, or where the default itself does not run."""
        self._whole_s = self.meter.left_s()
        start = self._trial(DEFAULT)
        if start.failure is not None:
            return DEFAULT
        best = self._best_of((self.space.canonical(hint) for hint in self.hints), DEFAULT)
        best = self._descend(best)
        wider = self._best_of(self._combinations(best), best)
        best = self._descend(wider) if wider != best else best
        return self._last_round(self._simplified(best))

    @property
    def tried(self) -> int:
        """Number of settings compiled."""
        return len(self.trials)

    def _descend(self, best: Settings) -> Settings:
        for _ in range(MOST_ROUNDS):
            before = best
            for name in self.space.names:
                best = self._line(name, best)
            if best == before:
                break
        return best

    def _line(self, name: str, start: Settings) -> Settings:
        """Walk along one setting until it gets worse; then the other way, where the first gained nothing."""
        best = start
        for values in self.space.line(name, start):
            unknown = not self._is_placed(name, start)
            for value in values:
                if not self._has_time():
                    return best
                settings = self.space.canonical(replaced(start, name, value))
                cost = self._trial(settings).cost
                worse = cost > self.trials[best].cost * PATIENCE
                best = self._better(settings, best)
                if worse and not unknown:
                    break
            if best != start and not unknown:
                break
        return best

    def _is_placed(self, name: str, start: Settings) -> bool:
        return name in dict(start) or name in dict(self.space.defaults)

    def _combinations(self, best: Settings) -> list[Settings]:
        """Steps in two settings at once, the most promising first, and a few random ones."""
        base = self.trials[DEFAULT].cost
        single = {
            trial.settings[0]: math.log(trial.cost / base)
            for trial in self.trials.values()
            if len(trial.settings) == 1 and math.isfinite(trial.cost)
        }
        steps = [self.space.canonical(item) for item in self.space.diagonals(best)]
        fresh = [item for item in dict.fromkeys(steps) if item not in self.trials and self.space.refused(item) is None]
        fresh.sort(key=lambda item: (predicted_log(item, single), item))
        stream = random.Random(self.seed)  # noqa: S311 - the same again on a second run
        drawn = []
        for _ in range(MOST_RANDOM if len(self.space.values) > 1 else 0):
            chosen = tuple(sorted((name, stream.choice(values)) for name, values in self.space.values))
            drawn.append(self.space.canonical(chosen))
        return fresh[:MOST_DIAGONALS] + [item for item in drawn if self.space.refused(item) is None]

    def _best_of(self, candidates: Iterable[Settings], best: Settings) -> Settings:
        for settings in candidates:
            if not self._has_time():
                break
            self._trial(settings)
            best = self._better(settings, best)
        return best

    def _simplified(self, best: Settings) -> Settings:
        """Leave to the candidate what does not pay."""
        for name, _ in best:
            less = dropped(best, name)
            if self._has_time() and self._trial(less).cost <= self.trials[best].cost * AS_GOOD:
                return self._simplified(less)
        return best

    def _last_round(self, best: Settings) -> Settings:
        """Time the best few interleaved, so that clock drift decides nothing; of equals the simplest wins."""
        ranked = sorted(self.trials.values(), key=lambda trial: (trial.cost, len(trial.settings), trial.settings))
        near = [trial.settings for trial in ranked if trial.cost <= self.trials[best].cost * PATIENCE]
        names = list(dict.fromkeys([best, *near]))[:FINALISTS]
        if len(names) == 1:
            return best
        fresh = {settings: TriedSettings(settings) for settings in names}
        for number in range(LAST_BLOCKS):
            for settings in names if number % 2 == 0 else reversed(names):
                self._measure(fresh[settings])
            if self.meter.left_s() <= 0:
                break
        lowest = min(trial.cost for trial in fresh.values())
        if not math.isfinite(lowest):
            return best
        equals = [settings for settings in names if fresh[settings].cost <= lowest * AS_GOOD]
        return min(equals, key=lambda settings: (len(settings), settings))

    def _trial(self, settings: Settings) -> TriedSettings:
        known = self.trials.get(settings)
        if known is not None:
            return known
        trial = self.trials[settings] = TriedSettings(settings, failure=self.space.refused(settings))
        if trial.failure is None:
            trial.failure = self.meter.attempt(settings)
        best = min((other.cost for other in self.trials.values() if other is not trial), default=math.inf)
        for limit in (*CLEARLY_WORSE, math.inf)[:BLOCKS]:
            if trial.failure is not None:
                break
            self._measure(trial)
            if trial.cost > best * limit:
                break
        return trial

    def _measure(self, trial: TriedSettings) -> None:
        samples = self.meter.block(trial.settings)
        if not samples:
            trial.failure = trial.failure or "it failed while it was timed"
        else:
            trial.blocks.append(samples)

    def _better(self, settings: Settings, best: Settings) -> Settings:
        trial = self.trials.get(settings)
        return settings if trial is not None and trial.cost < self.trials[best].cost * BETTER else best

    def _has_time(self) -> bool:
        there = self.meter.left_s() > self._whole_s * LAST_SHARE
        self.complete &= there
        return there


LEAST_ROUNDS = 8
MOST_FINAL_ROUNDS = 16


@dataclass(frozen=True)
class TuningOutcome:
    """What won, and by how much over the default; no ratio where the default itself won without a measured rival."""

    settings: Settings
    ratio: Ratio | None
    whole: bool = True  # False: the time ended before the least number of rounds
    default_us: float | None = None


def decide(best: Settings, meter: Meter) -> TuningOutcome:
    """Measure both in turns, as often as the time allows, and give the winner; nobody looks at the answer before the end.

    Source: gpu_runner/benchmark/estimate.py for the interval and the words: faster by more than 1% and than noise.
    """
    if best == DEFAULT:
        return TuningOutcome(DEFAULT, None)
    default: list[list[float]] = []
    rival: list[list[float]] = []
    for number in range(MOST_FINAL_ROUNDS):
        if meter.left_s() <= 0:
            break
        order = (DEFAULT, best) if number % 2 == 0 else (best, DEFAULT)
        blocks = {settings: meter.block(settings) for settings in order}
        ours, theirs = blocks[DEFAULT], blocks[best]
        if not ours or not theirs:
            return TuningOutcome(DEFAULT, None, whole=False)
        default.append(ours)
        rival.append(theirs)
    whole = len(default) >= LEAST_ROUNDS
    interval = estimate.ratio(default, rival)
    won = whole and estimate.word(interval, _noise(default)) is Word.faster
    default_us = statistics.median(estimate.block_medians(default)) if default else None
    return TuningOutcome(best if won else DEFAULT, interval, whole, default_us)


def _noise(default: list[list[float]]) -> float:
    """The default's log-ratio against itself: every second of its blocks against the others."""
    interval = estimate.ratio(default[0::2], default[1::2])
    return abs(math.log(interval.median)) if interval else 0.0
