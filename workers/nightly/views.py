"""What the pages show of the numbers: kernels at a glance, one kernel's history, two commits side by side. Pure.

The field names are those of the JSON API: a field is added, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from workers.nightly.detection import FLOOR, SeriesState, level_changes
from workers.nightly.series import KERNEL, Metric, Point, PointSource, SeriesKey, Testbed

TREND_WEEKS = 12
PASSES = ("full", "forward", "backward")  # the first that is there stands for a kernel
SHOWN = (
    SeriesState.confirmed,
    SeriesState.recovered,
    SeriesState.triaged,
)  # the states of a change that the overview tells
LEAST_POINTS = 10  # of a line in which change points are looked for


@dataclass(frozen=True)
class ChangeMark:
    """A change of a series and what became of it. ``ratio`` is new over old, None of values; ``commit`` is the first with it."""

    state: str
    timed_pass: str
    workload: str
    metric: str
    good_commit: str
    commit: str
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    recovered_commit: str | None
    reason: str
    opened_at_s: float
    changed_at_s: float


@dataclass(frozen=True)
class TrendWeek:
    """The mean time of a week, which begins at ``from_s`` (seconds since the epoch)."""

    from_s: float
    time_us: float


@dataclass(frozen=True)
class KernelState:
    """Where a kernel stands on a GPU model, by one series: the largest size of its whole pass at its newest commit."""

    kernel: str
    gpu: str
    testbed: Testbed
    timed_pass: str
    workload: str
    source: str
    commit: str
    measured_at_s: float
    time_us: float
    time_low_us: float | None
    time_high_us: float | None
    floor_share: float | None
    wrong_values: bool
    confirmed_changes: int
    last_change: ChangeMark | None
    trend: tuple[TrendWeek, ...]

    @property
    def is_worse(self) -> bool:
        """Whether a confirmed change stands, or values are wrong."""
        return self.confirmed_changes > 0 or self.wrong_values


class Newest(NamedTuple):
    """The newest number of a series; the ids are the database's."""

    series_id: int
    kernel: str
    timed_pass: str
    workload: str
    metric: Metric
    testbed: Testbed
    point_id: int
    measured_at: float
    value: float


@dataclass(frozen=True)
class HistoryChoice:
    """What can be chosen on the page of a kernel: one line of its history."""

    gpu: str
    metric: str
    timed_pass: str
    workload: str


@dataclass(frozen=True)
class ChartLine:
    """A series in a chart. ``change_points`` are the commits at which its level moved, found in all of its points."""

    provider: str
    workload: str
    testbed: Testbed
    imported: bool
    points: tuple[Point, ...]
    changes: tuple[ChangeMark, ...] = ()
    change_points: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelHistory:
    """A kernel's numbers over commits; ``commits`` are those of all lines, oldest first, and ``of_commits`` counts them all.

    ``around`` is the commit about which they stand, None: they are the newest.
    """

    repository: str
    kernel: str
    chosen: HistoryChoice
    choices: tuple[HistoryChoice, ...]
    library_workload: str | None
    library_workloads: tuple[str, ...]
    lines: tuple[ChartLine, ...]
    commits: tuple[str, ...]
    of_commits: int
    around: str | None


class Difference(StrEnum):
    """What is known of two numbers of one series."""

    slower = "slower"  # of a time; `larger` of peak memory, `wrong` of values
    faster = "faster"
    larger = "larger"
    smaller = "smaller"
    wrong = "wrong"
    right = "right"
    same = "same"
    undecided = "undecided"


@dataclass(frozen=True)
class ComparedSeries:
    """A series at two commits; ``one_run`` tells that the ratio is of an interleaved run, else it is of two nights."""

    kernel: str
    timed_pass: str
    workload: str
    metric: str
    testbed: Testbed
    before: float | None
    after: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    difference: Difference
    one_run: bool


@dataclass(frozen=True)
class CommitComparison:
    """Two commits side by side; a prefix that fits no commit, or several, is answered by those it fits."""

    repository: str
    before: str | None
    after: str | None
    before_fits: tuple[str, ...]
    after_fits: tuple[str, ...]
    rows: tuple[ComparedSeries, ...]


def headlines(newest: Iterable[Newest]) -> dict[tuple[str, str], Newest]:
    """Choose the series that stands for each kernel and GPU model.

    What a night or job measured goes before what a library's CSV says; of the commit measured last the whole pass, else
    forward; of that the size that takes longest.
    """
    groups: dict[tuple[str, str], list[Newest]] = {}
    for item in newest:
        if item.metric is Metric.time_us:
            groups.setdefault((item.kernel, item.testbed.gpu), []).append(item)
    return {place: _headline(items) for place, items in groups.items()}


def _headline(items: Sequence[Newest]) -> Newest:
    # A library's CSV names no driver.
    own = [item for item in items if item.testbed.driver] or items
    last = max(own, key=lambda item: item.measured_at)
    at_last = [item for item in own if item.measured_at == last.measured_at and item.testbed == last.testbed]
    return max(at_last, key=lambda item: (-_rank(item.timed_pass), item.value, item.workload))


def _rank(timed_pass: str) -> int:
    return PASSES.index(timed_pass) if timed_pass in PASSES else len(PASSES)


def kernel_states(
    newest: Sequence[Newest],
    chosen: Mapping[tuple[str, str], Newest],
    points: Mapping[int, Point],
    trends: Mapping[int, tuple[TrendWeek, ...]],
    changes: Mapping[tuple[str, str], Sequence[ChangeMark]],
) -> tuple[KernelState, ...]:
    """Put together where each kernel stands on each GPU model, by names.

    ``points`` are by their own ids; ``changes`` are those in one of the states ``SHOWN``, by kernel and GPU model.
    """
    wrong = {
        (item.kernel, item.testbed.gpu) for item in newest if item.metric is Metric.wrong_values and item.value > 0
    }
    return tuple(
        _state(item, points[item.point_id], place in wrong, changes.get(place, ()), trends.get(item.series_id, ()))
        for place, item in sorted(chosen.items())
    )


def _state(
    chosen: Newest, point: Point, wrong: bool, changes: Sequence[ChangeMark], trend: tuple[TrendWeek, ...]
) -> KernelState:
    def recency(change: ChangeMark) -> tuple[float, bool, bool]:
        # Of those that one night brought, the one of the number that stands beside it.
        same = (change.metric, change.timed_pass) == (chosen.metric, chosen.timed_pass)
        return change.changed_at_s, same, same and change.workload == chosen.workload

    return KernelState(
        chosen.kernel,
        chosen.testbed.gpu,
        chosen.testbed,
        chosen.timed_pass,
        chosen.workload,
        point.source.value,
        point.revision,
        point.measured_at,
        point.value,
        point.low,
        point.high,
        point.floor_share,
        wrong,
        sum(change.state == SeriesState.confirmed for change in changes),
        max(changes, key=recency, default=None),
        trend,
    )


def choose(choices: Sequence[HistoryChoice], wanted: Mapping[str, str], first: HistoryChoice) -> HistoryChoice:
    """The choice that fits most of what is wanted, an earlier field before all later ones; ``first`` where nothing is."""
    order = ("gpu", "metric", "timed_pass", "workload")

    def fit(choice: HistoryChoice) -> tuple[tuple[bool, bool], ...]:
        return tuple(
            (getattr(choice, name) == wanted.get(name), getattr(choice, name) == getattr(first, name)) for name in order
        )

    return max(choices, key=fit)


def like_workload(workload: str, others: Sequence[str]) -> str | None:
    """The library's own size that has all the dimensions of one of ours; the two write them in different orders."""
    wanted = _words(workload)
    fitting = [other for other in others if wanted <= _words(other)]
    return min(fitting, key=lambda other: (len(_words(other)), other), default=None)


def _words(workload: str) -> frozenset[str]:
    return frozenset(word.removeprefix("dtype=") for word in workload.split())


def line_of(key: SeriesKey, points: Sequence[Point], changes: Sequence[ChangeMark], keep: frozenset[str]) -> ChartLine:
    """A series as a line of a chart of some commits; its change points are those of its whole past."""
    imported = points[-1].source is PointSource.library
    searched = key.provider == KERNEL and not imported and len(points) >= LEAST_POINTS
    moved = level_changes([point.value for point in points]) if searched else ()
    return ChartLine(
        key.provider,
        key.workload,
        key.testbed,
        imported,
        tuple(point for point in points if point.revision in keep),
        tuple(changes),
        tuple(points[place].revision for place in moved if points[place].revision in keep),
    )


def commits_of(series: Iterable[Sequence[Point]]) -> tuple[str, ...]:
    """The revisions of several series in the order in which they were first measured."""
    first: dict[str, float] = {}
    for points in series:
        for point in points:
            first[point.revision] = min(point.measured_at, first.get(point.revision, point.measured_at))
    return tuple(sorted(first, key=lambda revision: (first[revision], revision)))


def commits_shown(commits: Sequence[str], last: int | None, commit: str) -> tuple[tuple[str, ...], str | None]:
    """The ``last`` newest commits (None: all), or as many about an older one that was asked for, and which that is."""
    if last is None or commit in commits[-last:] or commit not in commits:
        return tuple(commits if last is None else commits[-last:]), None
    end = max(last, commits.index(commit) + (last + 1) // 2)
    return tuple(commits[end - last : end]), commit


class PointReading(NamedTuple):
    """A number with its 20th and 80th percentile."""

    value: float
    low: float | None
    high: float | None


class ComparedRun(NamedTuple):
    """What one interleaved run of two commits came to: the state that it left a change in, and new over old."""

    state: str
    ratio: float
    low: float | None
    high: float | None


def compared_series(
    key: SeriesKey, before: PointReading | None, after: PointReading | None, run: ComparedRun | None
) -> ComparedSeries:
    """Compare two numbers of a series, by an interleaved run of the same two commits where there was one."""
    ratio = (None, None, None) if key.metric is Metric.wrong_values else _ratio(before, after)
    difference, one_run = _difference(key.metric, before, after, ratio), False
    if before is not None and after is not None and run is not None:
        ratio = ratio if key.metric is Metric.wrong_values else (run.ratio, run.low, run.high)
        difference, one_run = _of_run(key.metric, run.state), run.state != SeriesState.undecided
    return ComparedSeries(
        key.kernel,
        key.timed_pass,
        key.workload,
        key.metric.value,
        key.testbed,
        None if before is None else before.value,
        None if after is None else after.value,
        *ratio,
        difference,
        one_run,
    )


def _ratio(before: PointReading | None, after: PointReading | None) -> tuple[float | None, float | None, float | None]:
    """New over old, with the least and the most that the 20th and 80th percentiles of the two nights leave open."""
    if before is None or after is None or before.value <= 0 or after.value <= 0:
        return None, None, None
    ratio = after.value / before.value
    if before.low is None or before.high is None or after.low is None or after.high is None or before.low <= 0:
        return ratio, None, None
    return ratio, after.low / before.high, after.high / before.low


def _difference(
    metric: Metric,
    before: PointReading | None,
    after: PointReading | None,
    ratio: tuple[float | None, float | None, float | None],
) -> Difference:
    if before is None or after is None:
        return Difference.undecided
    if metric is Metric.wrong_values:
        if before.value == after.value:
            return Difference.same
        return Difference.wrong if after.value > before.value else Difference.right
    middle, low, high = ratio
    if middle is None:
        return Difference.undecided
    if metric is Metric.peak_bytes:  # counted, not sampled: two nights can be compared
        if abs(middle - 1) <= FLOOR:
            return Difference.same
        return Difference.larger if middle > 1 else Difference.smaller
    if low is None or high is None:
        return Difference.undecided
    if low > 1 + FLOOR:
        return Difference.slower
    if high < 1 - FLOOR:
        return Difference.faster
    return Difference.same if abs(middle - 1) <= FLOOR and low <= 1 <= high else Difference.undecided


def _of_run(metric: Metric, state: str) -> Difference:
    """What an interleaved comparison said, by the state that it left a change in."""
    if state == SeriesState.quiet:
        return Difference.same
    if state not in (SeriesState.confirmed, SeriesState.recovered, SeriesState.triaged):
        return Difference.undecided
    return {Metric.time_us: Difference.slower, Metric.peak_bytes: Difference.larger}.get(metric, Difference.wrong)
