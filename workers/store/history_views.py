"""What the pages read of series, points and changes: few statements each, and only the columns that are shown.

Tables are read and not their mapped classes: of thousands of rows the mapper would cost as much as the database.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import FromClause, Integer, Row, Select, cast, func, select
from sqlalchemy.orm import Session

from workers.nightly.detection import SeriesState
from workers.nightly.planning import WEEK_S, week_start
from workers.nightly.series import KERNEL, Metric, Point, PointSource, SeriesKey, Testbed
from workers.nightly.views import (
    SHOWN,
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
    commits_shown,
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

SERIES, POINTS, CHANGES = (table.__table__ for table in (MeasuredSeries, MeasuredPoint, SeriesChange))
COMMITS = MeasuredCommit.__table__


def _columns(table: FromClause, names: str) -> tuple[Any, ...]:
    return tuple(table.c[name] for name in names.split())


TESTBED = "gpu gpu_uuid driver torch triton"
_SERIES = _columns(SERIES, f"id repository kernel provider timed_pass workload metric {TESTBED}")
_POINT = _columns(POINTS, "revision measured_at value low high samples floor_share sm_clock_mhz source")
_NEWEST = (
    *_columns(SERIES, "id kernel timed_pass workload metric"),
    *_columns(POINTS, "id measured_at value"),
    *_columns(SERIES, TESTBED),
)
_CHANGE = (
    *_columns(CHANGES, "series_id"),
    *_columns(SERIES, "kernel gpu"),
    *_columns(CHANGES, "state"),
    *_columns(SERIES, "timed_pass workload metric"),
    *_columns(CHANGES, "good_revision bad_revision ratio ratio_low ratio_high"),
    *_columns(CHANGES, "recovered_revision reason opened_at changed_at"),
)


class _SeriesChange(NamedTuple):
    series_id: int
    place: tuple[str, str]  # kernel and GPU model
    mark: ChangeMark


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
    changes: dict[tuple[str, str], list[ChangeMark]] = {}
    for change in _changes(session, repository, kernel, SHOWN):
        changes.setdefault(change.place, []).append(change.mark)
    return kernel_states(newest, chosen, points, trends, changes)


def version(session: Session) -> tuple[int | None, int | None, float | None]:
    """What is another value once a number was kept, or something became of a change."""
    row = session.execute(
        select(
            select(func.max(POINTS.c.id)).scalar_subquery(),
            select(func.max(CHANGES.c.id)).scalar_subquery(),
            select(func.max(CHANGES.c.changed_at)).scalar_subquery(),
        )
    ).one()
    return row[0], row[1], row[2]


def _newest(session: Session, repository: str, kernel: str | None) -> list[Newest]:
    """The newest number of each series of the library's own kernels, from an index alone."""
    at = POINTS.alias()
    last = select(func.max(at.c.measured_at)).where(at.c.series_id == SERIES.c.id).scalar_subquery()
    query = (
        select(*_NEWEST)
        .join_from(SERIES, POINTS, (POINTS.c.series_id == SERIES.c.id) & (POINTS.c.measured_at == last))
        .where(SERIES.c.repository == repository, SERIES.c.provider == KERNEL)
        .where(SERIES.c.metric.in_((Metric.time_us.value, Metric.wrong_values.value)))
    )
    rows = session.execute(query if kernel is None else query.where(SERIES.c.kernel == kernel))
    newest: dict[int, Newest] = {}
    for row in rows:
        series_id, name, timed_pass, workload, metric, point_id, measured_at, value = row[:8]
        # Of several at the same moment, as a CSV may have them, the one that was kept last.
        if series_id not in newest or newest[series_id].point_id < point_id:
            newest[series_id] = Newest(
                series_id, name, timed_pass, workload, METRICS[metric], _testbed(*row[8:]), point_id, measured_at, value
            )
    return list(newest.values())


def _points_by_id(session: Session, ids: Sequence[int]) -> dict[int, Point]:
    points: dict[int, Point] = {}
    for at in range(0, len(ids), MOST_AT_ONCE):
        query = select(POINTS.c.id, *_POINT)
        rows = session.execute(query.where(POINTS.c.id.in_(ids[at : at + MOST_AT_ONCE])))
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
    week = cast((POINTS.c.measured_at - begin) / WEEK_S, Integer)
    trends: dict[int, list[TrendWeek]] = {}
    for at in range(0, len(series), MOST_AT_ONCE):
        query = (
            select(POINTS.c.series_id, week, func.avg(POINTS.c.value))
            .where(POINTS.c.series_id.in_(series[at : at + MOST_AT_ONCE]), POINTS.c.measured_at >= begin)
            .group_by(POINTS.c.series_id, week)
            .order_by(POINTS.c.series_id, week)
        )
        query = query if end == math.inf else query.where(POINTS.c.measured_at < end)
        for series_id, number, mean in session.execute(query):
            trends.setdefault(series_id, []).append(TrendWeek(begin + number * WEEK_S, float(mean)))
    return {series_id: tuple(weeks) for series_id, weeks in trends.items()}


def _changes(
    session: Session, repository: str, kernel: str | None, states: Iterable[SeriesState]
) -> Iterator[_SeriesChange]:
    """The changes of a repository's kernels, or of one, that are in one of the states, oldest first."""
    query = (
        select(*_CHANGE)
        .join_from(CHANGES, SERIES, CHANGES.c.series_id == SERIES.c.id)
        .where(SERIES.c.repository == repository, CHANGES.c.state.in_([state.value for state in states]))
        .order_by(CHANGES.c.id)
    )
    for row in session.execute(query if kernel is None else query.where(SERIES.c.kernel == kernel)):
        series_id, name, gpu, state, timed_pass, workload, metric, good, bad, ratio, *rest = row
        ratio = None if metric == Metric.wrong_values else ratio
        yield _SeriesChange(
            series_id, (name, gpu), ChangeMark(state, timed_pass, workload, metric, good, bad, ratio, *rest)
        )


def history_of(
    session: Session, repository: str, kernel: str, wanted: dict[str, str], last: int | None
) -> KernelHistory | None:
    """A kernel's numbers at its ``last`` newest commits, None: all; None where the repository has no such kernel.

    ``wanted`` names gpu, metric, timed_pass, workload, the library's own workload and a commit to show, as far as they are chosen.
    """
    rows = session.execute(select(*_SERIES).where(SERIES.c.repository == repository, SERIES.c.kernel == kernel)).all()
    if not rows:
        return None
    imported = _imported(session, [row[0] for row in rows])
    own = [row for row in rows if row.provider == KERNEL and row[0] not in imported]
    measured = {row.gpu for row in own}
    # On a GPU model on which nothing was measured a library's CSV has all that there is.
    shown = own + [row for row in rows if row.gpu not in measured]
    choices = tuple(
        sorted(
            {_choice(row) for row in shown},
            key=lambda one: (one.gpu, one.metric != Metric.time_us, one.metric, one.timed_pass, one.workload),
        )
    )
    chosen = choose(choices, wanted, _first(session, repository, kernel, choices, wanted.get("gpu")))
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
    commits, around = commits_shown(every, last, wanted.get("commit", ""))
    keep = frozenset(commits)
    marks: dict[int, list[ChangeMark]] = {}
    for change in _changes(session, repository, kernel, SeriesState):
        marks.setdefault(change.series_id, []).append(change.mark)
    lines = [line_of(_key(row), points[row[0]], marks.get(row[0], ()), keep) for row in used if points[row[0]]]
    lines = sorted(
        (line for line in lines if line.points), key=lambda line: (line.imported, line.points[0].measured_at)
    )
    return KernelHistory(
        repository, kernel, chosen, choices, library_workload, tuple(theirs), tuple(lines), commits, len(every), around
    )


def _first(
    session: Session, repository: str, kernel: str, choices: Sequence[HistoryChoice], gpu: str | None
) -> HistoryChoice:
    """What stands for the kernel, on the wanted GPU model if there is a number of it, else where it was measured last."""
    kernels = states(session, repository, 0.0, kernel)
    newest = max(kernels, key=lambda state: (state.gpu == gpu, state.measured_at_s), default=None)
    if newest is None:
        return choices[0]
    return HistoryChoice(newest.gpu, Metric.time_us.value, newest.timed_pass, newest.workload)


def _choice(row: AnyRow) -> HistoryChoice:
    return HistoryChoice(row.gpu, row.metric, row.timed_pass, row.workload)


def _imported(session: Session, series: Sequence[int]) -> frozenset[int]:
    """Those of the series that come from a library's own CSV; a series has one source."""
    first = (
        select(POINTS.c.source)
        .where(POINTS.c.series_id == SERIES.c.id)
        .order_by(POINTS.c.measured_at)
        .limit(1)
        .correlate(SERIES)
        .scalar_subquery()
    )
    query = select(SERIES.c.id).where(SERIES.c.id.in_(series), first == PointSource.library.value)
    return frozenset(session.scalars(query))


def _points(session: Session, series_id: int) -> tuple[Point, ...]:
    rows = session.execute(
        select(*_POINT).where(POINTS.c.series_id == series_id).order_by(POINTS.c.measured_at, POINTS.c.id)
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
    old, new = POINTS.alias(), POINTS.alias()
    # Only what is shown is read: of every series of a large library anything else costs more than the query.
    query: Select[*tuple[Any, ...]] = (
        select(*_SERIES, old.c.value, old.c.low, old.c.high, new.c.value, new.c.low, new.c.high)
        .outerjoin_from(SERIES, old, (old.c.series_id == SERIES.c.id) & (old.c.revision == one))
        .outerjoin(new, (new.c.series_id == SERIES.c.id) & (new.c.revision == other))
        .where(SERIES.c.repository == repository, (old.c.id.is_not(None)) | (new.c.id.is_not(None)))
    )
    if gpu is not None:
        query = query.where(SERIES.c.gpu == gpu)
    if metric is not None:
        query = query.where(SERIES.c.metric == metric.value)
    ordered = (
        SERIES.c.kernel,
        SERIES.c.gpu,
        SERIES.c.metric,
        SERIES.c.timed_pass,
        SERIES.c.workload,
    )
    runs = {
        row[0]: ComparedRun(*row[1:])
        for row in session.execute(
            select(
                CHANGES.c.series_id,
                CHANGES.c.state,
                CHANGES.c.ratio,
                CHANGES.c.ratio_low,
                CHANGES.c.ratio_high,
            )
            .join(SERIES, SERIES.c.id == CHANGES.c.series_id)
            .where(SERIES.c.repository == repository)
            .where(CHANGES.c.good_revision == one, CHANGES.c.bad_revision == other)
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
    whole = POINTS.c.revision == prefix
    begins = (POINTS.c.revision >= prefix) & (POINTS.c.revision < prefix + LAST)
    query = (
        select(POINTS.c.revision)
        .join(SERIES, SERIES.c.id == POINTS.c.series_id)
        .where(SERIES.c.repository == repository, whole if len(prefix) < LEAST_PREFIX else begins)
        .distinct()
        .order_by(POINTS.c.revision)
        .limit(MOST_FITTING)
    )
    found = tuple(session.scalars(query))
    return (prefix,) if prefix in found else found


def newest_commits(session: Session, repository: str, most: int) -> tuple[str, ...]:
    """The commits that nights measured last, newest first."""
    query = (
        select(COMMITS.c.revision)
        .where(COMMITS.c.repository == repository)
        .order_by(COMMITS.c.measured_at.desc(), COMMITS.c.id.desc())
        .limit(most)
    )
    return tuple(session.scalars(query))


def gpus(session: Session, repository: str) -> tuple[str, ...]:
    """The GPU models that a repository has numbers of."""
    query = select(SERIES.c.gpu).where(SERIES.c.repository == repository)
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
