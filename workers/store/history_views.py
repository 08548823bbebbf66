"""What the pages read of series, points and changes: few statements each, and only the columns that are shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Integer, Row, Select, cast, func, select
from sqlalchemy.orm import Session, aliased

from workers.nightly.planning import WEEK_S, week_start
from workers.nightly.series import KERNEL, Metric, Point, PointSource, SeriesKey, Testbed
from workers.nightly.views import (
    TREND_WEEKS,
    ChangeMark,
    CommitComparison,
    ComparedRun,
    HistoryChoice,
    KernelHistory,
    KernelState,
    Newest,
    PointReading,
    TrendWeek,
    choose,
    commits_of,
    compared_series,
    headlines,
    kernel_states,
    like_workload,
    line_of,
)
from workers.store.history import MOST_AT_ONCE
from workers.store.models import MeasuredCommit, MeasuredPoint, MeasuredSeries, SeriesChange

LEAST_PREFIX = 4  # characters of a commit
MOST_FITTING = 5
LAST = "\U0010ffff"  # sorts behind every character that a revision has

Trends = dict[int, tuple[TrendWeek, ...]]
AnyRow = Row[*tuple[Any, ...]]

_SERIES: tuple[Any, ...] = (
    MeasuredSeries.id,
    MeasuredSeries.repository,
    MeasuredSeries.kernel,
    MeasuredSeries.provider,
    MeasuredSeries.timed_pass,
    MeasuredSeries.workload,
    MeasuredSeries.metric,
    MeasuredSeries.gpu,
    MeasuredSeries.gpu_uuid,
    MeasuredSeries.driver,
    MeasuredSeries.torch,
    MeasuredSeries.triton,
)
_CHANGE: tuple[Any, ...] = (
    SeriesChange.state,
    SeriesChange.good_revision,
    SeriesChange.bad_revision,
    SeriesChange.ratio,
    SeriesChange.ratio_low,
    SeriesChange.ratio_high,
    SeriesChange.recovered_revision,
    SeriesChange.reason,
    SeriesChange.opened_at,
    SeriesChange.changed_at,
)


def _point_columns(table: type[MeasuredPoint]) -> tuple[Any, ...]:
    return (
        table.revision,
        table.measured_at,
        table.value,
        table.low,
        table.high,
        table.samples,
        table.floor_share,
        table.sm_clock_mhz,
        table.source,
    )


def states(
    session: Session, repository: str, now: float, kernel: str | None = None, past: Trends | None = None
) -> tuple[KernelState, ...]:
    """Where each kernel of a repository, or one, stands on each GPU model.

    ``past`` keeps the means of weeks that are over, by series, from one call to the next in the same week.
    """
    newest = _newest(session, repository, kernel)
    chosen = headlines(newest)
    points = _points_by_id(session, [item.point_id for item in chosen.values()])
    trends = _trends(session, [item.series_id for item in chosen.values()], now, {} if past is None else past)
    return kernel_states(newest, chosen, points, trends, _changes(session, repository, kernel))


def version(session: Session) -> tuple[int | None, int | None, float | None]:
    """What is another value once a number was kept, or something became of a change."""
    row = session.execute(
        select(
            select(func.max(MeasuredPoint.id)).scalar_subquery(),
            select(func.max(SeriesChange.id)).scalar_subquery(),
            select(func.max(SeriesChange.changed_at)).scalar_subquery(),
        )
    ).one()
    return row[0], row[1], row[2]


def _newest(session: Session, repository: str, kernel: str | None) -> list[Newest]:
    """The newest number of each series of the library's own kernels, from an index alone."""
    at = aliased(MeasuredPoint)
    last = select(func.max(at.measured_at)).where(at.series_id == MeasuredSeries.id).scalar_subquery()
    query = (
        select(*_SERIES, MeasuredPoint.id, MeasuredPoint.measured_at, MeasuredPoint.value)
        .join(MeasuredPoint, (MeasuredPoint.series_id == MeasuredSeries.id) & (MeasuredPoint.measured_at == last))
        .where(MeasuredSeries.repository == repository, MeasuredSeries.provider == KERNEL)
        .where(MeasuredSeries.metric.in_((Metric.time_us.value, Metric.wrong_values.value)))
        .order_by(MeasuredPoint.id)
    )
    rows = session.execute(query if kernel is None else query.where(MeasuredSeries.kernel == kernel))
    # Of several at the same moment, as a CSV may have them, the one that was kept last.
    return list({row[0]: Newest(row[0], _key(row), *row[len(_SERIES) :]) for row in rows}.values())


def _points_by_id(session: Session, ids: Sequence[int]) -> dict[int, Point]:
    points: dict[int, Point] = {}
    for at in range(0, len(ids), MOST_AT_ONCE):
        query = select(MeasuredPoint.id, *_point_columns(MeasuredPoint))
        rows = session.execute(query.where(MeasuredPoint.id.in_(ids[at : at + MOST_AT_ONCE])))
        points |= {row[0]: _point(row, 1) for row in rows}
    return points


def _trends(session: Session, series: Sequence[int], now: float, past: Trends) -> Trends:
    """The mean of each week; weeks before the last one are looked up in ``past``, and kept there."""
    live = week_start(now) - WEEK_S  # a night that began on a Sunday may be kept on a Monday
    missing = [series_id for series_id in series if series_id not in past]
    begin = live - (TREND_WEEKS - 2) * WEEK_S
    past |= dict.fromkeys(missing, ()) | _weeks(session, missing, begin, live)
    fresh = _weeks(session, series, live, math.inf)
    return {series_id: past[series_id] + fresh.get(series_id, ()) for series_id in series}


def _weeks(session: Session, series: Sequence[int], begin: float, end: float) -> Trends:
    week = cast((MeasuredPoint.measured_at - begin) / WEEK_S, Integer)
    trends: dict[int, list[TrendWeek]] = {}
    for at in range(0, len(series), MOST_AT_ONCE):
        query = (
            select(MeasuredPoint.series_id, week, func.avg(MeasuredPoint.value))
            .where(MeasuredPoint.series_id.in_(series[at : at + MOST_AT_ONCE]), MeasuredPoint.measured_at >= begin)
            .group_by(MeasuredPoint.series_id, week)
            .order_by(MeasuredPoint.series_id, week)
        )
        query = query if end == math.inf else query.where(MeasuredPoint.measured_at < end)
        for series_id, number, mean in session.execute(query):
            trends.setdefault(series_id, []).append(TrendWeek(begin + number * WEEK_S, float(mean)))
    return {series_id: tuple(weeks) for series_id, weeks in trends.items()}


def _changes(session: Session, repository: str, kernel: str | None = None) -> list[tuple[SeriesKey, ChangeMark]]:
    query = (
        select(*_SERIES, *_CHANGE)
        .join(SeriesChange, SeriesChange.series_id == MeasuredSeries.id)
        .where(MeasuredSeries.repository == repository)
        .order_by(SeriesChange.id)
    )
    rows = session.execute(query if kernel is None else query.where(MeasuredSeries.kernel == kernel))
    return [(_key(row), _mark(row)) for row in rows]


def _mark(row: AnyRow) -> ChangeMark:
    return ChangeMark(
        row.state,
        row.timed_pass,
        row.workload,
        row.metric,
        row.good_revision,
        row.bad_revision,
        None if row.metric == Metric.wrong_values else row.ratio,
        row.ratio_low,
        row.ratio_high,
        row.recovered_revision,
        row.reason,
        row.opened_at,
        row.changed_at,
    )


def history_of(
    session: Session, repository: str, kernel: str, wanted: dict[str, str], last: int | None
) -> KernelHistory | None:
    """A kernel's numbers at its ``last`` newest commits, None: all; None where the repository has no such kernel.

    ``wanted`` names gpu, metric, timed_pass, workload and the library's own workload, as far as they are chosen.
    """
    rows = session.execute(
        select(*_SERIES).where(MeasuredSeries.repository == repository, MeasuredSeries.kernel == kernel)
    ).all()
    if not rows:
        return None
    imported = _imported(session, [row[0] for row in rows])
    own = [row for row in rows if row.provider == KERNEL and row[0] not in imported]
    choices = tuple(
        sorted(
            {_choice(row) for row in own or rows},
            key=lambda one: (one.gpu, one.metric != Metric.time_us, one.metric, one.timed_pass, one.workload),
        )
    )
    chosen = choose(choices, wanted, _first(session, repository, kernel, choices))
    same_conditions = [
        row for row in rows if (row.gpu, row.metric, row.timed_pass) == (chosen.gpu, chosen.metric, chosen.timed_pass)
    ]
    theirs = sorted({row.workload for row in same_conditions if row[0] in imported})
    library = wanted.get("library", "")
    library_workload = library if library in theirs else like_workload(chosen.workload, theirs)
    used = [
        row for row in same_conditions if row.workload == (library_workload if row[0] in imported else chosen.workload)
    ]
    points = {row[0]: _points(session, row[0]) for row in used}
    every = commits_of(points.values())
    commits = every if last is None else every[-last:]
    keep = frozenset(commits)
    marks: dict[SeriesKey, list[ChangeMark]] = {}
    for key, change in _changes(session, repository, kernel):
        marks.setdefault(key, []).append(change)
    lines = [line_of(_key(row), points[row[0]], marks.get(_key(row), ()), keep) for row in used if points[row[0]]]
    lines = sorted(
        (line for line in lines if line.points), key=lambda line: (line.imported, line.points[0].measured_at)
    )
    return KernelHistory(
        repository, kernel, chosen, choices, library_workload, tuple(theirs), tuple(lines), commits, len(every)
    )


def _first(session: Session, repository: str, kernel: str, choices: Sequence[HistoryChoice]) -> HistoryChoice:
    kernels = states(session, repository, 0.0, kernel)
    newest = max(kernels, key=lambda state: state.measured_at_s, default=None)
    if newest is None:
        return choices[0]
    return HistoryChoice(newest.gpu, Metric.time_us.value, newest.timed_pass, newest.workload)


def _choice(row: AnyRow) -> HistoryChoice:
    return HistoryChoice(row.gpu, row.metric, row.timed_pass, row.workload)


def _imported(session: Session, series: Sequence[int]) -> frozenset[int]:
    """Those of the series that come from a library's own CSV; a series has one source."""
    first = (
        select(MeasuredPoint.source)
        .where(MeasuredPoint.series_id == MeasuredSeries.id)
        .order_by(MeasuredPoint.measured_at)
        .limit(1)
        .correlate(MeasuredSeries)
        .scalar_subquery()
    )
    query = select(MeasuredSeries.id).where(MeasuredSeries.id.in_(series), first == PointSource.library.value)
    return frozenset(session.scalars(query))


def _points(session: Session, series_id: int) -> tuple[Point, ...]:
    rows = session.execute(
        select(*_point_columns(MeasuredPoint))
        .where(MeasuredPoint.series_id == series_id)
        .order_by(MeasuredPoint.measured_at, MeasuredPoint.id)
    )
    return tuple(_point(row) for row in rows)


def comparison(
    session: Session, repository: str, before: str, after: str, gpu: str | None, metric: Metric | None
) -> CommitComparison:
    """Compare the commits that two prefixes name, in every series that has a number at one of them."""
    fits = [_fitting(session, repository, prefix) for prefix in (before, after)]
    one, other = (fit[0] if len(fit) == 1 else None for fit in fits)
    if one is None or other is None:
        return CommitComparison(repository, one, other, fits[0], fits[1], ())
    old, new = aliased(MeasuredPoint), aliased(MeasuredPoint)
    # Only what is shown is read: of every series of a large library anything else costs more than the query.
    query: Select[*tuple[Any, ...]] = (
        select(*_SERIES, old.value, old.low, old.high, new.value, new.low, new.high)
        .outerjoin(old, (old.series_id == MeasuredSeries.id) & (old.revision == one))
        .outerjoin(new, (new.series_id == MeasuredSeries.id) & (new.revision == other))
        .where(MeasuredSeries.repository == repository, (old.id.is_not(None)) | (new.id.is_not(None)))
    )
    if gpu is not None:
        query = query.where(MeasuredSeries.gpu == gpu)
    if metric is not None:
        query = query.where(MeasuredSeries.metric == metric.value)
    ordered = (
        MeasuredSeries.kernel,
        MeasuredSeries.gpu,
        MeasuredSeries.metric,
        MeasuredSeries.timed_pass,
        MeasuredSeries.workload,
    )
    runs = {
        row[0]: ComparedRun(*row[1:])
        for row in session.execute(
            select(
                SeriesChange.series_id,
                SeriesChange.state,
                SeriesChange.ratio,
                SeriesChange.ratio_low,
                SeriesChange.ratio_high,
            )
            .join(MeasuredSeries, MeasuredSeries.id == SeriesChange.series_id)
            .where(MeasuredSeries.repository == repository)
            .where(SeriesChange.good_revision == one, SeriesChange.bad_revision == other)
        )
    }
    width = len(_SERIES)
    rows = (
        compared_series(_key(row), _reading(row, width), _reading(row, width + 3), runs.get(row[0]))
        for row in session.execute(query.order_by(*ordered))
    )
    return CommitComparison(repository, one, other, fits[0], fits[1], tuple(rows))


def _reading(row: AnyRow, at: int) -> PointReading | None:
    return None if row[at] is None else PointReading(*row[at : at + 3])


def _fitting(session: Session, repository: str, prefix: str) -> tuple[str, ...]:
    """The revisions that a prefix names, itself where it is one; none where it is too short to look for."""
    whole = MeasuredPoint.revision == prefix
    begins = (MeasuredPoint.revision >= prefix) & (MeasuredPoint.revision < prefix + LAST)
    query = (
        select(MeasuredPoint.revision)
        .join(MeasuredSeries, MeasuredSeries.id == MeasuredPoint.series_id)
        .where(MeasuredSeries.repository == repository, whole if len(prefix) < LEAST_PREFIX else begins)
        .distinct()
        .order_by(MeasuredPoint.revision)
        .limit(MOST_FITTING)
    )
    found = tuple(session.scalars(query))
    return (prefix,) if prefix in found else found


def newest_commits(session: Session, repository: str, most: int) -> tuple[str, ...]:
    """The commits that nights measured last, newest first."""
    query = (
        select(MeasuredCommit.revision)
        .where(MeasuredCommit.repository == repository)
        .order_by(MeasuredCommit.measured_at.desc(), MeasuredCommit.id.desc())
        .limit(most)
    )
    return tuple(session.scalars(query))


def gpus(session: Session, repository: str) -> tuple[str, ...]:
    """The GPU models that a repository has numbers of."""
    query = select(MeasuredSeries.gpu).where(MeasuredSeries.repository == repository)
    return tuple(sorted(session.scalars(query.distinct())))


def _key(row: AnyRow, at: int = 1) -> SeriesKey:
    repository, kernel, provider, timed_pass, workload, metric, *testbed = row[at : at + 11]
    return SeriesKey(repository, kernel, provider, timed_pass, workload, METRICS[metric], _testbed(*testbed))


# An installation has few testbeds, and a page names one of them in every row.
_testbed = lru_cache(maxsize=1000)(Testbed)
METRICS = {metric.value: metric for metric in Metric}
SOURCES = {source.value: source for source in PointSource}


def _point(row: AnyRow, at: int = 0) -> Point:
    revision, measured_at, value, *rest, source = row[at : at + 9]
    low, high, samples, floor_share, clock = rest
    return Point(revision, measured_at, value, low, high, samples, floor_share, clock, SOURCES[source])
