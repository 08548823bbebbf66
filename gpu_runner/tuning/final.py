"""The final between the best settings and the default: paired blocks in ABBA order, and the default stays unless it loses. Pure."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from gpu_runner.benchmark import estimate
from gpu_runner.benchmark.estimate import Ratio
from gpu_runner.contracts.benchmark import Word
from gpu_runner.tuning.search import Meter
from gpu_runner.tuning.settings import DEFAULT, Settings

LEAST_ROUNDS = 8
MOST_ROUNDS = 16


@dataclass(frozen=True)
class Outcome:
    """What won, and by how much over the default; no ratio where the default itself won without a measured rival."""

    settings: Settings
    ratio: Ratio | None
    whole: bool = True  # False: the time ended before the least number of rounds
    default_us: float | None = None


def decide(best: Settings, meter: Meter) -> Outcome:
    """Measure both in turns, as often as the time allows, and give the winner; nobody looks at the answer before the end.

    Source: gpu_runner/benchmark/estimate.py for the interval and the words: faster by more than 1% and than noise.
    """
    if best == DEFAULT:
        return Outcome(DEFAULT, None)
    default: list[list[float]] = []
    rival: list[list[float]] = []
    for number in range(MOST_ROUNDS):
        if meter.left_s() <= 0:
            break
        order = (DEFAULT, best) if number % 2 == 0 else (best, DEFAULT)
        blocks = {settings: meter.block(settings) for settings in order}
        ours, theirs = blocks[DEFAULT], blocks[best]
        if not ours or not theirs:
            return Outcome(DEFAULT, None, whole=False)
        default.append(ours)
        rival.append(theirs)
    whole = len(default) >= LEAST_ROUNDS
    found = estimate.ratio(default, rival)
    won = whole and estimate.word(found, _noise(default)) is Word.faster
    default_us = statistics.median(estimate.block_medians(default)) if default else None
    return Outcome(best if won else DEFAULT, found, whole, default_us)


def _noise(default: list[list[float]]) -> float:
    """Give by how much the default differed from itself, as a log-ratio: every second of its blocks against the others."""
    found = estimate.ratio(default[0::2], default[1::2])
    return abs(math.log(found.median)) if found else 0.0
