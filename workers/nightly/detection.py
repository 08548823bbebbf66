"""What a night's number says: nothing, a candidate for a change, or that an earlier change is gone. Pure.

A candidate is a reason to compare two commits in one run, and nothing more: only that comparison makes it a regression.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from gpu_runner.contracts import Status, Word
from workers.nightly.series import Metric, Point, PointSource

FLOOR = 0.01  # a smaller change is not looked into, however quiet a series is
UNKNOWN_BAND = 0.03  # of a series with too short a past to have a band of its own
LEAST_DELTAS = 6
MOST_POINTS = 60  # of a series' past that count
LEVEL_POINTS = 5  # the median of which is where a series stands
WHISKER = 1.5  # interquartile ranges beyond the quartiles. Source: Tukey, Exploratory Data Analysis (1977)
LEAST_SEGMENT = 3  # nights on either side of a change point
LEAST_WINDOW = 10
PENALTY = 6.0  # times log n: the squared error, in variances of the noise, that a change point must take away
LEAST_NOISE = 0.001  # log-scale; a quieter series would see change points in the clock's resolution
SQRT2, NORMAL_IQR = math.sqrt(2.0), 1.349


# Of what stands in a library: it does not compute what it should. Other verdicts, such as a timeout, say nothing of its values.
WRONG = frozenset(
    {
        Status.incorrect_values,
        Status.incorrect_gradient,
        Status.incorrect_shape,
        Status.incorrect_dtype,
        Status.unwritten_output,
        Status.mutated_input,
        Status.out_of_bounds,
        Status.nondeterministic,
        Status.compile_error,
        Status.launch_error,
    }
)


class SeriesState(StrEnum):
    """Where a series, or a change in it, is."""

    quiet = "quiet"  # within its band; of a change: the comparison found none
    candidate = "candidate"  # not compared yet
    confirmed = "confirmed"  # the comparison found it
    undecided = "undecided"  # the comparison could not tell; the next night compares again
    recovered = "recovered"  # confirmed once, and gone since, which a comparison found too
    triaged = "triaged"  # confirmed, and accepted by a person: the series' base since
    improved = "improved"  # the comparison found it faster or smaller than a week before


OPEN = (SeriesState.candidate, SeriesState.confirmed, SeriesState.undecided)


class NightEvidence(StrEnum):
    """Why a night's number is looked into."""

    band = "band"  # outside of the band that the series' own past deltas give
    change_point = "change_point"  # the level moved by little, and stayed there
    values = "values"  # results are wrong
    recovery = "recovery"  # back at the level of before an open change
    faster = "faster"  # below the band that a week began with


@dataclass(frozen=True)
class Change:
    """A change that is known of a series; ``recovered`` is the revision at which it was gone."""

    good: str
    bad: str
    state: SeriesState
    ratio: float = 1.0
    recovered: str | None = None


@dataclass(frozen=True)
class Candidate:
    """Two revisions to compare: the last one before the change and tonight's. ``ratio`` is new over old by the series alone."""

    good: str
    bad: str
    ratio: float
    evidence: NightEvidence


@dataclass(frozen=True)
class Band:
    """Where the next number of a series is expected, as a share of its level."""

    level: float
    low: float
    high: float


def look(points: Sequence[Point], metric: Metric, changes: Sequence[Change] = ()) -> Candidate | None:
    """Look at the newest of a series' points, oldest first; None: nothing to look into.

    Of a change that is open its recovery is looked for, and another change on top of it. An accepted or confirmed change begins
    the series anew; one that a comparison did not find is not proposed a second time.
    """
    if len(points) < 2 or any(change.bad == points[-1].revision for change in changes):
        return None
    if metric is Metric.wrong_values:
        return _values(points, changes)
    usable = _sound([point for point in points if point.value > 0], changes)
    if len(usable) < 2 or usable[-1] is not points[-1]:
        return None
    back = _recovery(usable, changes)
    if back is not None:
        return back
    begin = _begin(usable, changes)
    window = usable[max(begin, len(usable) - MOST_POINTS) :]
    return _outside(window) or _moved(window, _after(window, changes))


def improvement(points: Sequence[Point], since: float, changes: Sequence[Change] = ()) -> Candidate | None:
    """The newest of a series' points as an improvement over where the series stood at ``since``, the start of a week; else None.

    A series that has recovered since then is none: that was told when it did.
    """
    past = [point for point in points if point.measured_at < since and point.value > 0]
    if not past or len(past) == len(points) or points[-1].value <= 0:
        return None
    fresh = {point.revision for point in points[len(past) :]}
    if any(change.recovered in fresh for change in changes):
        return None
    expected = band(past[-MOST_POINTS:])
    ratio = points[-1].value / expected.level
    if ratio >= expected.low:
        return None
    middle = expected.level * math.sqrt(ratio)
    good = next((point for point in reversed(past) if point.value >= middle), past[-1])
    return Candidate(good.revision, points[-1].revision, ratio, NightEvidence.faster)


def own_past(points: Sequence[Point], changes: Sequence[Change]) -> tuple[Point, ...]:
    """The points that say where a series stands and how it varies: its nights since the newest change that stands."""
    nights = [point for point in points if point.source is PointSource.night and point.value > 0]
    usable = _sound(nights, changes)
    return tuple(usable[max(_begin(usable, changes), len(usable) - MOST_POINTS) :])


def settle(candidate: Candidate, word: Word | None) -> SeriesState:
    """What a comparison of ``bad`` with ``good`` makes of a candidate; None: they could not be compared."""
    if candidate.evidence is NightEvidence.faster:
        return SeriesState.improved if word is Word.faster else SeriesState.quiet
    if candidate.evidence is NightEvidence.recovery:
        return SeriesState.recovered if word in (Word.same, Word.faster) else SeriesState.confirmed
    if word is None or word is Word.undecided:
        return SeriesState.undecided
    return SeriesState.confirmed if word is Word.slower else SeriesState.quiet


# Runs of both commits that must agree before anything is reported. Two processes of one source may differ by more than the interval
# of a run says: of three equal ones the candidate is slower than the original by more than the control in up to a quarter of runs.
# Measured by simulation: with two runs up to 0.8 false alarms in 1000 series-nights of such kernels, with three 0.2
# (docs/measurements/2026-11-25-uneven-nights.md).
RUNS = 3

# What is news of a candidate, and what is left of it where a further run does not say so too.
NEWS = {
    NightEvidence.recovery: (SeriesState.recovered, SeriesState.confirmed),
    NightEvidence.faster: (SeriesState.improved, SeriesState.quiet),
}


def compared(candidate: Candidate, compare: Callable[[], Word | None]) -> SeriesState:
    """Compare the two revisions of a candidate, and again before anything is reported: all runs must say the same.

    Runs that differ by the luck of their processes seldom agree.
    """
    news, unsure = NEWS.get(candidate.evidence, (SeriesState.confirmed, SeriesState.undecided))
    state = settle(candidate, compare())
    if state is not news:
        return state
    return news if all(settle(candidate, compare()) is news for _ in range(RUNS - 1)) else unsure


def band(past: Sequence[Point]) -> Band:
    """The band of a series by its past: quartiles of its deltas and their range, at least 1% wide to either side."""
    logs = [math.log(point.value) for point in past]
    level = statistics.median(logs[-LEVEL_POINTS:])
    deltas = [after - before for before, after in pairwise(logs)]
    if len(deltas) < LEAST_DELTAS:
        return Band(math.exp(level), 1 - UNKNOWN_BAND, 1 + UNKNOWN_BAND)
    first, _, third = statistics.quantiles(deltas, n=4, method="inclusive")
    reach = WHISKER * (third - first)
    least = math.log1p(FLOOR)
    return Band(math.exp(level), math.exp(min(first - reach, -least)), math.exp(max(third + reach, least)))


def _values(points: Sequence[Point], changes: Sequence[Change]) -> Candidate | None:
    tonight = points[-1]
    wrong = _confirmed(changes)
    if wrong:
        return Candidate(wrong[0].good, tonight.revision, 0.0, NightEvidence.recovery) if tonight.value == 0 else None
    right = _last_right(points)
    if tonight.value == 0 or right < 0 or values_accepted(points, changes):
        return None
    return Candidate(points[right].revision, tonight.revision, 1.0, NightEvidence.values)


def values_accepted(points: Sequence[Point], changes: Sequence[Change]) -> bool:
    """Whether a person has accepted that a kernel's values are wrong, and no night has found them right since."""
    accepted = max(
        (_place(points, change.bad) for change in changes if change.state is SeriesState.triaged), default=-1
    )
    return accepted > _last_right(points)


def _last_right(points: Sequence[Point]) -> int:
    return max((place for place, point in enumerate(points) if point.value == 0), default=-1)


def _sound(points: Sequence[Point], changes: Sequence[Change]) -> list[Point]:
    """Leave out what was measured while a change stood that is gone: it says nothing of where the series stands."""
    spans = [(_place(points, one.bad), _place(points, one.recovered)) for one in changes if one.recovered is not None]
    return [point for place, point in enumerate(points) if not any(0 <= bad <= place < end for bad, end in spans)]


def _recovery(points: Sequence[Point], changes: Sequence[Change]) -> Candidate | None:
    """Look for the oldest open change before which the series stands again: those on top of it are gone with it."""
    tonight = points[-1]
    for change in _confirmed(changes):
        place = _place(points, change.bad)
        if place < 1:
            continue
        earlier = points[:place]
        before = band(earlier[max(_begin(earlier, changes), place - MOST_POINTS) :])
        ratio = tonight.value / before.level
        # Nearer to the old level than to the new one, so that a small change does not recover by the width of the band.
        if ratio <= min(before.high, math.sqrt(max(change.ratio, 1.0))):
            return Candidate(change.good, tonight.revision, ratio, NightEvidence.recovery)
    return None


def _confirmed(changes: Sequence[Change]) -> list[Change]:
    return [change for change in changes if change.state is SeriesState.confirmed]


def _begin(points: Sequence[Point], changes: Sequence[Change]) -> int:
    """The place from which the past counts: the newest change that stands."""
    standing = [change.bad for change in changes if change.state in (SeriesState.confirmed, SeriesState.triaged)]
    return max([0, *(_place(points, revision) for revision in standing)])


def _after(window: Sequence[Point], changes: Sequence[Change]) -> int:
    """The place behind which a change point is news: earlier ones were compared, and nothing was found."""
    return max((_place(window, change.bad) for change in changes if change.state is SeriesState.quiet), default=-1)


def _place(points: Sequence[Point], revision: str) -> int:
    return next((place for place, point in enumerate(points) if point.revision == revision), -1)


def _outside(window: Sequence[Point]) -> Candidate | None:
    if len(window) < 2:
        return None
    past, tonight = window[:-1], window[-1]
    expected = band(past)
    ratio = tonight.value / expected.level
    if ratio <= expected.high:
        return None
    # The last one that is nearer to the old level than to tonight's: yesterday's may show the change already, within its band.
    middle = expected.level * math.sqrt(ratio)
    good = next((point for point in reversed(past) if point.value <= middle), past[-1])
    return Candidate(good.revision, tonight.revision, ratio, NightEvidence.band)


def _moved(window: Sequence[Point], after: int) -> Candidate | None:
    if len(window) < LEAST_WINDOW:
        return None
    logs = [math.log(point.value) for point in window]
    noise = _noise(logs)
    # Numbers far outside say nothing of a level: a noisy night, or several, are one outlier each.
    level = statistics.median(logs)
    place = _change_point([max(-4.0, min(4.0, (value - level) / noise)) for value in logs])
    if place is None or place <= after:
        return None
    moved = statistics.median(logs[place:]) - statistics.median(logs[:place])
    if moved <= math.log1p(FLOOR):
        return None
    return Candidate(window[place - 1].revision, window[-1].revision, math.exp(moved), NightEvidence.change_point)


def _noise(logs: Sequence[float]) -> float:
    deltas = [after - before for before, after in pairwise(logs)]
    first, _, third = statistics.quantiles(deltas, n=4, method="inclusive")
    return max(LEAST_NOISE, (third - first) / (NORMAL_IQR * SQRT2))


def level_changes(values: Sequence[float]) -> tuple[int, ...]:
    """The places in a whole past at which the level moved by more than 1%, either way, and stayed; for a chart.

    A running median of five takes single noisy nights out first.
    """
    logs = [math.log(value) if value > 0 else 0.0 for value in values]
    smooth = [statistics.median(logs[max(0, at - 2) : at + 3]) for at in range(len(logs))]
    noise = _noise(logs)
    ends = [0, *_segment_ends([value / noise for value in smooth])]
    levels = [statistics.median(logs[start:end]) for start, end in pairwise(ends)]
    return tuple(
        start
        for start, (old, new) in zip(ends[1:], pairwise(levels), strict=False)
        if abs(new - old) > math.log1p(FLOOR)
    )


def _change_point(values: Sequence[float]) -> int | None:
    """The first place of the newest segment of equal level; None where there is but one segment."""
    ends = _segment_ends(values)
    return ends[-2] if len(ends) > 1 else None


def _segment_ends(values: Sequence[float]) -> list[int]:
    """The ends of the segments of equal level, the last of them the number of values."""
    import numpy as np
    import ruptures as rpt

    search = rpt.KernelCPD(kernel="linear", min_size=LEAST_SEGMENT).fit(np.asarray(values, dtype=float).reshape(-1, 1))
    return [int(end) for end in search.predict(pen=PENALTY * math.log(len(values)))]
