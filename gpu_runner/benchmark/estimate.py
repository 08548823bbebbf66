"""Estimates from blocks of samples: medians, quantiles, ratios with their interval, and the word for them. No I/O."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from gpu_runner.contracts.benchmark import Word

RESAMPLES = 2000
LEAST_BLOCKS = 3
MARGIN = 0.01  # a difference that is not worth a word
MOST_SAME = 0.03  # beyond it nothing is called the same, however unsteady the machine is
LEVEL = 0.95
MIDDLE = 0.5  # share of a turn's samples that count, the middle ones


@dataclass(frozen=True)
class Ratio:
    """How many times as fast, with the bootstrap interval."""

    median: float
    low: float
    high: float

    @property
    def bound(self) -> float:
        """Give how far from one the interval reaches, as a log-ratio."""
        return max(abs(math.log(self.low)), abs(math.log(self.high)))


def quantile(samples: Sequence[float], share: float) -> float:
    """Give a quantile, linear between samples.

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
    """Give the mean of the middle half: as safe from outliers as a median, and not stuck on the clock's own steps.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    cut = int(len(ordered) * (1 - MIDDLE) / 2)
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def block_medians(blocks: Sequence[Sequence[float]]) -> list[float]:
    """Give the median of each block."""
    return [statistics.median(block) for block in blocks]


def ratio(
    baseline: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]], seed: int = 0, level: float = LEVEL
) -> Ratio | None:
    """Give baseline time over candidate time, block by block in the order of the rounds; None with too few rounds."""
    pairs = list(zip(block_medians(baseline), block_medians(candidate), strict=False))
    return ratio_of_logs([math.log(b / c) for b, c in pairs if b > 0 and c > 0], seed, level)


def ratio_of_logs(logs: Sequence[float], seed: int = 0, level: float = LEVEL) -> Ratio | None:
    """Give the median of log-ratios as a ratio, with its interval; None with too few of them.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13: the percentile interval.
    """
    count = len(logs)
    if count < LEAST_BLOCKS:
        return None
    values = torch.tensor(logs, dtype=torch.float64)
    stream = torch.Generator().manual_seed(seed)
    drawn = values[torch.randint(0, count, (RESAMPLES, count), generator=stream)].sort(1).values
    medians = (drawn[:, (count - 1) // 2] + drawn[:, count // 2]) / 2
    edges = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    low, high = (float(edge) for edge in torch.quantile(medians, edges))
    return Ratio(math.exp(statistics.median(logs)), math.exp(low), math.exp(high))


def control(blocks: Sequence[Sequence[float]]) -> float:
    """Give by how much one contender differed from itself: the typical log-ratio of neighbouring blocks, for the median of all."""
    medians = block_medians(blocks)
    steps = [abs(math.log(b / a)) for a, b in pairwise(medians) if a > 0 and b > 0]
    return statistics.median(steps) / math.sqrt(len(steps)) if steps else 0.0


def word(found: Ratio | None, noise: float, most_same: float = MOST_SAME) -> Word:
    """Say it in a word: beyond 1% and beyond ``noise``, the log-ratio that an A/A control showed, with the whole interval.

    ``same`` needs the whole interval within 1%, or within ``noise`` up to ``most_same``.
    """
    if found is None:
        return Word.undecided
    least = max(math.log1p(MARGIN), noise)
    low, high = math.log(found.low), math.log(found.high)
    if low > least:
        return Word.faster
    if high < -least:
        return Word.slower
    same = min(least, math.log1p(most_same))
    return Word.same if -same <= low and high <= same else Word.undecided
