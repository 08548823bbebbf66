"""What a series' own nights say of a comparison outside of them: how many rounds it needs, and which result is unusual. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from gpu_runner.contracts import USUAL_PAIRS, Pass, RaceLength
from workers.contracts import UsualRange
from workers.nightly.detection import LEAST_DELTAS, Change, band, own_past
from workers.nightly.series import KERNEL, Metric, Point, SeriesKey, Testbed

QUANTILES = 2 * 0.8416  # standard deviations of a normal distribution between the 20th and the 80th percentile
# Half the width of a 95% interval of a median of n log-ratios is 1.96 * 1.2533 * sigma / sqrt(n).
# Source: the asymptotic variance of a sample median, pi/2 times that of the mean (Kenney and Keeping, 1962).
WIDTH = 1.96 * math.sqrt(math.pi / 2)
HALF_WIDTH = 0.005  # so narrow that "same" is decided within the margin of 1%
# Of the scatter of single runs, what is left in the ratio of one pair of rounds, each a mean of twelve runs; what a whole turn has
# in common does not average out. Measured: 0.39 to 0.64 on the simulated machines of tests/gpu_runner/benchmark/machine.py.
PAIR_SHARE = 0.5
Series = Iterable[tuple[SeriesKey, Sequence[Point], Sequence[Change]]]


def usual_ranges(series: Series, testbed: Testbed) -> tuple[UsualRange, ...]:
    """What the numbers of one kernel vary by: on this testbed, else on the newest one of its GPU model that has enough nights."""
    chosen: dict[tuple[str, str, str], tuple[tuple[bool, float], UsualRange]] = {}
    for key, points, changes in series:
        past = own_past(points, changes)
        if key.provider != KERNEL or key.metric is Metric.wrong_values or key.testbed.gpu != testbed.gpu:
            continue
        if len(past) <= LEAST_DELTAS:
            continue
        place = (key.timed_pass, key.workload, key.metric.value)
        rank = (key.testbed == testbed, past[-1].measured_at)
        if place not in chosen or chosen[place][0] < rank:
            expected = band(past)
            found = UsualRange(*place, testbed.gpu, len(past), expected.low, expected.high, scatter(past))
            chosen[place] = (rank, found)
    return tuple(chosen[place][1] for place in sorted(chosen))


def scatter(points: Sequence[Point]) -> float:
    """The standard deviation of a run's log time within a night, the median of the nights; 0 where none kept percentiles."""
    each = [math.log(point.high / point.low) / QUANTILES for point in points if point.low and point.high]
    return statistics.median(each) if each else 0.0


def race_lengths(usual: Iterable[UsualRange]) -> tuple[RaceLength, ...]:
    """The rows that scatter so much that they need more pairs than usual; a quiet one is decided at an early look anyway."""
    lengths = []
    for one in usual:
        pairs = math.ceil((WIDTH * PAIR_SHARE * one.scatter / HALF_WIDTH) ** 2)
        if one.metric == Metric.time_us and pairs > USUAL_PAIRS:
            lengths.append(RaceLength(one.workload, Pass(one.timed_pass), pairs))
    return tuple(lengths)
