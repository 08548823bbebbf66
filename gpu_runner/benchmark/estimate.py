"""Estimates from blocks of samples: medians, quantiles, ratios with their interval, and the word for them. Pure."""

from __future__ import annotations

import functools
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpu_runner.contracts.benchmark import Word

RESAMPLES = 2000
LEAST_BLOCKS = 3
LEAST_RESAMPLED = 8  # the bootstrap interval of fewer is too narrow
MARGIN = 0.01  # smaller differences count as none
MOST_SAME = 0.03  # beyond it nothing is called the same, however unsteady the machine is
LEVEL = 0.95
BURST, NEAREST = 1.25, 0.2  # a difference so large, and the share of turns that must have half of it
MIDDLE = 0.5  # share of a turn's samples that count, the middle ones


@dataclass(frozen=True)
class Ratio:
    """How many times as fast, with the bootstrap interval."""

    median: float
    low: float
    high: float

    @property
    def bound(self) -> float:
        """Largest distance of the interval from one, as a log-ratio."""
        return max(abs(math.log(self.low)), abs(math.log(self.high)))


def quantile(samples: Sequence[float], share: float) -> float:
    """A quantile, linear between samples.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def midmean(samples: Sequence[float]) -> float:
    """Mean of the middle half: as robust to outliers as a median, and finer than the clock's resolution.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    cut = int(len(ordered) * (1 - MIDDLE) / 2)
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def block_medians(blocks: Sequence[Sequence[float]]) -> list[float]:
    return [statistics.median(block) for block in blocks]


def ratio(baseline: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]]) -> Ratio | None:
    """Baseline time over candidate time, block by block in the order of the rounds; None with too few rounds."""
    pairs = list(zip(block_medians(baseline), block_medians(candidate), strict=False))
    return ratio_of_logs([math.log(b / c) for b, c in pairs if b > 0 and c > 0])


def ratio_of_logs(logs: Sequence[float], level: float = LEVEL) -> Ratio | None:
    """The median of log-ratios as a ratio, with its interval; None with too few of them.

    Of fewer than eight the interval is from the least to the most: the chance that all six lie on one side of what their median
    estimates is 2 in 64, whatever their distribution.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13: the percentile interval.
    """
    if len(logs) < LEAST_BLOCKS:
        return None
    ordered = sorted(logs)
    if len(ordered) < LEAST_RESAMPLED:
        return Ratio(math.exp(statistics.median(ordered)), math.exp(ordered[0]), math.exp(ordered[-1]))
    medians = [(ordered[low] + ordered[high]) / 2 for low, high in _middles(len(ordered))]
    low, high = quantile(medians, (1 - level) / 2), quantile(medians, (1 + level) / 2)
    return Ratio(math.exp(statistics.median(ordered)), math.exp(low), math.exp(high))


@functools.lru_cache(maxsize=256)
def _middles(count: int) -> tuple[tuple[int, int], ...]:
    """Draw so many from so many, again and again, and give which of them lie in the middle: no value is needed for that."""
    stream = random.Random(0)  # noqa: S311 - resampling, not a secret
    drawn = (sorted(stream.choices(range(count), k=count)) for _ in range(RESAMPLES))
    return tuple((places[(count - 1) // 2], places[count // 2]) for places in drawn)


def control(blocks: Sequence[Sequence[float]]) -> float:
    """A contender's difference from itself: the typical log-ratio of neighbouring blocks, scaled to the median of all."""
    medians = block_medians(blocks)
    steps = [abs(math.log(b / a)) for a, b in pairwise(medians) if a > 0 and b > 0]
    return statistics.median(steps) / math.sqrt(len(steps)) if steps else 0.0


def comes_in_bursts(logs: Sequence[float]) -> bool:
    """Whether a large difference is not in the nearest fifth of the turns: another process had the GPU in those of one side.

    ``logs``: log of baseline time over contender time, turn by turn. A kernel that is slower is so in each of its turns; a
    neighbour's bursts of some milliseconds meet the turns of one contender. Measured: 2026-11-29, H200, of kernels next to
    themselves: a median of 2,736 us beside a fifth of the samples at 257 us, and one of 2,944 us that may as well be 450.
    """
    middle = statistics.median(logs)
    nearest = quantile([math.copysign(1.0, middle) * log for log in logs], NEAREST)
    return abs(middle) > math.log(BURST) and nearest < abs(middle) / 2


def word(interval: Ratio | None, noise: float, most_same: float = MOST_SAME) -> Word:
    """The verdict of an interval: faster or slower with all of it beyond 1% and beyond ``noise``, the A/A control's log-ratio.

    ``same`` needs the whole interval within 1%, or within ``noise`` up to ``most_same``.
    """
    if interval is None:
        return Word.undecided
    least = max(math.log1p(MARGIN), noise)
    low, high = math.log(interval.low), math.log(interval.high)
    if low > least:
        return Word.faster
    if high < -least:
        return Word.slower
    same = min(least, math.log1p(most_same))
    return Word.same if -same <= low and high <= same else Word.undecided
