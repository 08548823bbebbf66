"""Estimates from blocks of samples: medians, quantiles, ratios with their interval, and the word for them. Pure."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpu_runner.contracts.benchmark import Word

RESAMPLES = 2000
LEAST_BLOCKS = 3
MARGIN = 0.01  # a difference that is not worth a word


@dataclass(frozen=True)
class Ratio:
    """How many times as fast, with the 95% bootstrap interval."""

    median: float
    low: float
    high: float


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


def block_medians(blocks: Sequence[Sequence[float]]) -> list[float]:
    """Give the median of each block."""
    return [statistics.median(block) for block in blocks]


def ratio(baseline: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]], seed: int = 0) -> Ratio | None:
    """Give baseline time over candidate time, block by block in the order of the rounds; None with too few rounds.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13: the percentile interval.
    """
    pairs = list(zip(block_medians(baseline), block_medians(candidate), strict=False))
    if len(pairs) < LEAST_BLOCKS:
        return None
    logs = [math.log(b / c) for b, c in pairs if b > 0 and c > 0]
    if len(logs) < LEAST_BLOCKS:
        return None
    stream = random.Random(seed)  # noqa: S311 - resampling, not a secret
    medians = [statistics.median(stream.choices(logs, k=len(logs))) for _ in range(RESAMPLES)]
    low, high = quantile(medians, 0.025), quantile(medians, 0.975)
    return Ratio(math.exp(statistics.median(logs)), math.exp(low), math.exp(high))


def control(blocks: Sequence[Sequence[float]]) -> float:
    """Give by how much one contender differed from itself: the typical log-ratio of neighbouring blocks, for the median of all."""
    medians = block_medians(blocks)
    steps = [abs(math.log(b / a)) for a, b in pairwise(medians) if a > 0 and b > 0]
    return statistics.median(steps) / math.sqrt(len(steps)) if steps else 0.0


def word(found: Ratio | None, noise: float) -> Word:
    """Say it in a word: beyond 1% and beyond what a contender differed from itself, with the whole interval."""
    if found is None:
        return Word.undecided
    least = math.exp(max(math.log1p(MARGIN), noise))
    if found.low > least:
        return Word.faster
    if found.high < 1 / least:
        return Word.slower
    if 1 / least <= found.low and found.high <= least:
        return Word.same
    return Word.undecided
