"""Series, their points and their changes. Each function is part of one transaction; the same point twice is one point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import and_, bindparam, delete, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from workers.contracts import StageName, regression_key
from workers.nightly.detection import Candidate, Change, NightEvidence, SeriesState
from workers.nightly.job_numbers import STAGES
from workers.nightly.planning import DAY_S, Retention, forgotten
from workers.nightly.series import Metric, Point, PointSource, SeriesKey, Testbed
from workers.store.models import Job, MeasuredCommit, MeasuredPoint, MeasuredSeries, SeriesChange, StageAttempt

MOST_AT_ONCE = 500  # rows in a statement; SQLite takes a bounded number of values
Ratio = tuple[float, float | None, float | None]  # new over old, with its interval where there is one
INSERT: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def add(session: Session, numbers: Iterable[tuple[SeriesKey, Point]]) -> int:
    """Keep points, and give how many were new; a series' number at a revision stays as it was measured first.

    But a night's takes the place of a job's: only nights are in the order of the commits.
    """
    ids: dict[SeriesKey, int] = {}
    rows = []
    for key, point in numbers:
        if key not in ids:
            ids[key] = _series(session, key)
        rows.append({"series_id": ids[key]} | asdict(point))
    return sum(_keep(session, rows[at : at + MOST_AT_ONCE]) for at in range(0, len(rows), MOST_AT_ONCE))


def _keep(session: Session, rows: Sequence[dict[str, Any]]) -> int:
    insert = INSERT[session.get_bind().dialect.name](MeasuredPoint).values(list(rows))
    number = ("measured_at", "value", "low", "high", "samples", "floor_share", "sm_clock_mhz", "source")
    of_night = (MeasuredPoint.source == PointSource.job.value) & (insert.excluded.source == PointSource.night.value)
    kept = insert.on_conflict_do_update(
        index_elements=["series_id", "revision"],
        set_={name: insert.excluded[name] for name in number},
        where=of_night,
    )
    return len(session.execute(kept.returning(MeasuredPoint.id)).all())


def add_commit(session: Session, repository: str, revision: str, snapshot: str, measured_at: float) -> None:
    """Keep which commit a night measures."""
    form = {"repository": repository, "revision": revision, "snapshot": snapshot, "measured_at": measured_at}
    _insert(session, MeasuredCommit, [form])


def last_commit(session: Session, repository: str, not_revision: str = "") -> tuple[str, str] | None:
    """The commit that was measured last, and its snapshot; None where there is none besides ``not_revision``."""
    row = session.scalar(
        select(MeasuredCommit)
        .where(MeasuredCommit.repository == repository, MeasuredCommit.revision != not_revision)
        .order_by(MeasuredCommit.measured_at.desc(), MeasuredCommit.id.desc())
        .limit(1)
    )
    return None if row is None else (row.revision, row.snapshot)


def last_night(session: Session, repository: str, not_revision: str = "") -> float | None:
    """When the last commit was measured, besides ``not_revision``."""
    return session.scalar(
        select(func.max(MeasuredCommit.measured_at)).where(
            MeasuredCommit.repository == repository, MeasuredCommit.revision != not_revision
        )
    )


def snapshot_of(session: Session, repository: str, revision: str) -> str | None:
    """The snapshot of a commit that was measured."""
    return session.scalar(
        select(MeasuredCommit.snapshot).where(
            MeasuredCommit.repository == repository, MeasuredCommit.revision == revision
        )
    )


def last_right(session: Session, repository: str, kernel: str, not_revision: str) -> tuple[str, str, int | None] | None:
    """The commit at which a night found nothing wrong in a kernel's values last, besides ``not_revision``.

    With its snapshot and the samples of the number.
    """
    of_kernel = [MeasuredSeries.repository == repository, MeasuredSeries.kernel == kernel]
    row = session.execute(
        select(MeasuredCommit.revision, MeasuredCommit.snapshot, MeasuredPoint.samples)
        .join(MeasuredPoint, MeasuredPoint.revision == MeasuredCommit.revision)
        .join(MeasuredSeries, MeasuredSeries.id == MeasuredPoint.series_id)
        .where(MeasuredCommit.repository == repository, MeasuredCommit.revision != not_revision)
        .where(*of_kernel, MeasuredSeries.metric == Metric.wrong_values.value)
        .where(MeasuredPoint.source == PointSource.night.value, MeasuredPoint.value == 0.0)
        .order_by(MeasuredPoint.measured_at.desc(), MeasuredPoint.id.desc())
        .limit(1)
    ).first()
    return None if row is None else (row[0], row[1], row[2])


def read(
    session: Session, repository: str, kernel: str | None = None, testbed: Testbed | None = None
) -> Iterator[tuple[SeriesKey, tuple[Point, ...]]]:
    """Series with their points, oldest first."""
    query = select(MeasuredSeries).where(MeasuredSeries.repository == repository)
    if kernel is not None:
        query = query.where(MeasuredSeries.kernel == kernel)
    for name, value in asdict(testbed).items() if testbed is not None else ():
        query = query.where(getattr(MeasuredSeries, name) == value)
    for row in session.scalars(query.order_by(MeasuredSeries.id)).all():
        points = session.scalars(_POINTS, {"series_id": row.id})
        yield key_of(row), tuple(point_of(point) for point in points)


_POINTS = (
    select(MeasuredPoint)
    .where(MeasuredPoint.series_id == bindparam("series_id"))
    .order_by(MeasuredPoint.measured_at, MeasuredPoint.id)
)


def own_series(
    session: Session, repository: str, kernel: str
) -> Iterator[tuple[SeriesKey, tuple[Point, ...], tuple[Change, ...]]]:
    """A kernel's series with their points and changes."""
    for key, points in read(session, repository, kernel):
        yield key, points, changes_of(session, key)


def has_nights(session: Session, repository: str, kernel: str) -> bool:
    """Whether a night has measured a kernel."""
    query = (
        select(MeasuredPoint.id)
        .join(MeasuredSeries, MeasuredSeries.id == MeasuredPoint.series_id)
        .where(MeasuredSeries.repository == repository, MeasuredSeries.kernel == kernel)
        .where(MeasuredPoint.source == PointSource.night.value)
    )
    return session.scalar(query.limit(1)) is not None


def job_results(session: Session, repository: str) -> Iterator[tuple[Any, StageName, Any, float]]:
    """What the jobs of a repository measured at the commit that they are at now: request, stage, summary, time; oldest first."""
    query = (
        select(Job.request, StageAttempt.stage, StageAttempt.output, StageAttempt.ended_at)
        .join(Job, Job.job_id == StageAttempt.job_id)
        .where(Job.repository == repository, StageAttempt.generation == Job.generation)
        .where(StageAttempt.stage.in_([stage.value for stage in STAGES]), StageAttempt.ended_at.is_not(None))
        .order_by(StageAttempt.ended_at, StageAttempt.id)
    )
    for request, stage, output, ended_at in session.execute(query):
        if output is not None and "summary" in output:
            yield request, StageName(stage), output["summary"], ended_at


def last_measured(session: Session, repository: str, testbed: Testbed) -> dict[str, tuple[str, float]]:
    """For each kernel of a testbed the revision of its newest point from a night, and when that was measured."""
    query = (
        select(MeasuredSeries.kernel, MeasuredPoint.revision, func.max(MeasuredPoint.measured_at))
        .join(MeasuredPoint, MeasuredPoint.series_id == MeasuredSeries.id)
        .where(MeasuredSeries.repository == repository, MeasuredPoint.source == PointSource.night.value)
        .where(*(getattr(MeasuredSeries, name) == value for name, value in asdict(testbed).items()))
        .group_by(MeasuredSeries.kernel, MeasuredPoint.revision)
    )
    newest: dict[str, tuple[str, float]] = {}
    for kernel, revision, at in session.execute(query):
        if kernel not in newest or newest[kernel][1] < at:
            newest[kernel] = (revision, at)
    return newest


def kernels_at(session: Session, repository: str, testbed: Testbed, revision: str) -> set[str]:
    """The kernels of which a night has a number at a commit on a testbed, whatever was measured since."""
    query = (
        select(MeasuredSeries.kernel)
        .distinct()
        .join(MeasuredPoint, MeasuredPoint.series_id == MeasuredSeries.id)
        .where(MeasuredSeries.repository == repository, MeasuredPoint.revision == revision)
        .where(MeasuredPoint.source == PointSource.night.value)
        .where(*(getattr(MeasuredSeries, name) == value for name, value in asdict(testbed).items()))
    )
    return set(session.scalars(query))


def last_places(session: Session, repository: str, gpu: str) -> dict[str, tuple[str, str, float]]:
    """For each kernel that a night measured on a GPU model: the UUID of the GPU that has its newest point, revision and time."""
    query = (
        select(
            MeasuredSeries.kernel,
            MeasuredSeries.gpu_uuid,
            MeasuredPoint.revision,
            func.max(MeasuredPoint.measured_at).label("at"),
        )
        .join(MeasuredPoint, MeasuredPoint.series_id == MeasuredSeries.id)
        .where(MeasuredSeries.repository == repository, MeasuredSeries.gpu == gpu)
        .where(MeasuredPoint.source == PointSource.night.value)
        .group_by(MeasuredSeries.kernel, MeasuredSeries.gpu_uuid, MeasuredPoint.revision)
        .order_by("at")
    )
    return {kernel: (gpu_uuid, revision, at) for kernel, gpu_uuid, revision, at in session.execute(query)}


def repositories(session: Session) -> tuple[str, ...]:
    """The repositories that have series."""
    return tuple(session.scalars(select(MeasuredSeries.repository).distinct().order_by(MeasuredSeries.repository)))


def rename(session: Session, repository: str, name: str) -> int:
    """Have a repository's numbers go on under its new name, and give how many series that concerns.

    Where a series has numbers under the new name already the two become one, in which those stay.
    """
    old = session.scalars(select(MeasuredSeries).where(MeasuredSeries.repository == repository)).all()
    for row in old:
        key = replace(key_of(row), repository=name).digest()
        other = session.scalar(select(MeasuredSeries.id).where(MeasuredSeries.key == key))
        if other is None:
            row.key, row.repository = key, name
            continue
        _join(session, MeasuredPoint.revision, MeasuredPoint.series_id, row.id, other)
        _join(session, SeriesChange.bad_revision, SeriesChange.series_id, row.id, other)
        session.delete(row)
    _join(session, MeasuredCommit.revision, MeasuredCommit.repository, repository, name)
    session.flush()
    return len(old)


def _join(session: Session, row: Any, whole: Any, old: Any, new: Any) -> None:
    """Move the rows of one whole to another, but those that it has already."""
    table, known = row.class_, select(row).where(whole == new)
    session.execute(update(table).where(whole == old, row.not_in(known)).values({whole: new}))
    session.execute(delete(table).where(whole == old))


def forget(session: Session, retention: Retention, now: float) -> int:
    """Remove the points that the policy no longer keeps, and give how many; what a change names stays.

    So do imported ones: each is a release of its own, and several may have been measured in one week.
    """
    removed = 0
    oldest = now - min(retention.all_days, retention.weekly_days) * DAY_S
    own = MeasuredPoint.source != PointSource.library.value
    aged = select(MeasuredPoint.series_id).where(MeasuredPoint.measured_at < oldest, own).distinct()
    for series_id in session.scalars(aged).all():
        named = select(SeriesChange.good_revision, SeriesChange.bad_revision, SeriesChange.recovered_revision).where(
            SeriesChange.series_id == series_id
        )
        kept = {revision for row in session.execute(named) for revision in row}
        rows = session.execute(
            select(MeasuredPoint.id, MeasuredPoint.measured_at, MeasuredPoint.revision)
            .where(MeasuredPoint.series_id == series_id, own)
            .order_by(MeasuredPoint.measured_at, MeasuredPoint.id)
        ).all()
        gone = forgotten([(row[0], row[1]) for row in rows if row[2] not in kept], retention, now)
        for at in range(0, len(gone), MOST_AT_ONCE):
            session.execute(delete(MeasuredPoint).where(MeasuredPoint.id.in_(gone[at : at + MOST_AT_ONCE])))
        removed += len(gone)
    return removed


def key_of(row: MeasuredSeries) -> SeriesKey:
    """A row's key."""
    testbed = Testbed(row.gpu, row.gpu_uuid, row.driver, row.torch, row.triton)
    return SeriesKey(
        row.repository, row.kernel, row.provider, row.timed_pass, row.workload, Metric(row.metric), testbed
    )


def point_of(row: MeasuredPoint) -> Point:
    """A row's point."""
    return Point(
        row.revision,
        row.measured_at,
        row.value,
        row.low,
        row.high,
        row.samples,
        row.floor_share,
        row.sm_clock_mhz,
        PointSource(row.source),
    )


def _series(session: Session, key: SeriesKey) -> int:
    digest = key.digest()
    if (known := session.scalar(_ID_OF, {"digest": digest})) is not None:
        return known
    form = asdict(key) | asdict(key.testbed)
    del form["testbed"]
    _insert(session, MeasuredSeries, [{"key": digest} | form])
    return session.scalars(_ID_OF, {"digest": digest}).one()


_ID_OF = select(MeasuredSeries.id).where(MeasuredSeries.key == bindparam("digest"))


def _insert(session: Session, table: type[Any], rows: Sequence[dict[str, Any]]) -> int:
    """Insert what is not there yet, also where another process inserts the same at this moment."""
    if not rows:
        return 0
    insert = INSERT[session.get_bind().dialect.name]
    done = session.execute(insert(table).values(list(rows)).on_conflict_do_nothing().returning(table.id))
    return len(done.all())


def changes_of(session: Session, key: SeriesKey) -> tuple[Change, ...]:
    """The changes that are known of a series, oldest first."""
    rows = session.scalars(_CHANGES, {"digest": key.digest()})
    return tuple(
        Change(row.good_revision, row.bad_revision, SeriesState(row.state), row.ratio, row.recovered_revision)
        for row in rows
    )


_CHANGES = (
    select(SeriesChange)
    .join(MeasuredSeries, MeasuredSeries.id == SeriesChange.series_id)
    .where(MeasuredSeries.key == bindparam("digest"))
    .order_by(SeriesChange.id)
)


def keep_change(
    session: Session, key: SeriesKey, candidate: Candidate, state: SeriesState, ratio: Ratio, now: float
) -> None:
    """Keep what became of a candidate: a change of its own, or the state of the change that it is the recovery of."""
    series_id = _series(session, key)
    if candidate.evidence is NightEvidence.recovery:
        if state is SeriesState.recovered:
            _recover(session, series_id, candidate, now)
        return
    middle, low, high = ratio
    form = {
        "series_id": series_id,
        "state": state.value,
        "good_revision": candidate.good,
        "bad_revision": candidate.bad,
        "ratio": middle,
        "ratio_low": low,
        "ratio_high": high,
        "reason": "",
        "opened_at": now,
        "changed_at": now,
    }
    _insert(session, SeriesChange, [form])


def _recover(session: Session, series_id: int, candidate: Candidate, now: float) -> None:
    """Mark the change that is gone, and those that were confirmed on top of it."""
    confirmed = [SeriesChange.series_id == series_id, SeriesChange.state == SeriesState.confirmed.value]
    first = select(func.min(SeriesChange.id)).where(*confirmed, SeriesChange.good_revision == candidate.good)
    gone = session.scalars(select(SeriesChange.id).where(*confirmed, SeriesChange.id >= first.scalar_subquery())).all()
    form = {"state": SeriesState.recovered.value, "recovered_revision": candidate.bad, "changed_at": now}
    session.execute(update(SeriesChange).where(SeriesChange.id.in_(gone)).values(**form))


def standing(session: Session, repository: str, gpu: str) -> tuple[str, ...]:
    """The kernels of which a confirmed change is left on a GPU model, by name."""
    query = (
        select(MeasuredSeries.kernel)
        .distinct()
        .join(SeriesChange, SeriesChange.series_id == MeasuredSeries.id)
        .where(MeasuredSeries.repository == repository, MeasuredSeries.gpu == gpu)
        .where(SeriesChange.state == SeriesState.confirmed.value)
        .order_by(MeasuredSeries.kernel)
    )
    return tuple(session.scalars(query))


def standing_metrics(session: Session, repository: str, kernel: str, gpu: str) -> tuple[str, ...]:
    """The metrics in which a confirmed change of a kernel is left on a GPU model, by name."""
    query = (
        select(MeasuredSeries.metric)
        .distinct()
        .join(SeriesChange, SeriesChange.series_id == MeasuredSeries.id)
        .where(MeasuredSeries.repository == repository, MeasuredSeries.kernel == kernel, MeasuredSeries.gpu == gpu)
        .where(SeriesChange.state == SeriesState.confirmed.value)
        .order_by(MeasuredSeries.metric)
    )
    return tuple(session.scalars(query))


def standing_elsewhere(
    session: Session, repository: str, kernel: str, testbed: Testbed
) -> list[tuple[SeriesKey, Change]]:
    """The oldest confirmed change of each of a kernel's series on other testbeds of the same GPU model."""
    rows = session.execute(
        select(MeasuredSeries, SeriesChange)
        .join(SeriesChange, SeriesChange.series_id == MeasuredSeries.id)
        .where(MeasuredSeries.repository == repository, MeasuredSeries.kernel == kernel)
        .where(MeasuredSeries.gpu == testbed.gpu, SeriesChange.state == SeriesState.confirmed.value)
        .order_by(SeriesChange.id)
    )
    changes: dict[SeriesKey, Change] = {}
    for series, row in rows:
        key = key_of(series)
        if key.testbed != testbed:
            changes.setdefault(key, Change(row.good_revision, row.bad_revision, SeriesState(row.state), row.ratio))
    return list(changes.items())


def triage(session: Session, repository: str, key: str, reason: str, now: float) -> int:
    """Accept the confirmed changes of the kernel and GPU model of a key, and give how many; again the same, where it was done."""
    rows = session.execute(
        select(SeriesChange.id, SeriesChange.state, MeasuredSeries.kernel, MeasuredSeries.gpu)
        .join(MeasuredSeries, MeasuredSeries.id == SeriesChange.series_id)
        .where(MeasuredSeries.repository == repository)
        .where(
            or_(
                SeriesChange.state == SeriesState.confirmed.value,
                and_(SeriesChange.state == SeriesState.triaged.value, SeriesChange.reason == reason),
            )
        )
    ).all()
    meant = [row for row in rows if regression_key(row[2], row[3]) == key]
    fresh = [row[0] for row in meant if row[1] == SeriesState.confirmed.value]
    form = {"state": SeriesState.triaged.value, "reason": reason, "changed_at": now}
    session.execute(update(SeriesChange).where(SeriesChange.id.in_(fresh)).values(**form))
    return len(fresh) or len(meant)


def last_testbed(session: Session, repository: str, gpu: str) -> Testbed | None:
    """The testbed on which a night measured last with such a GPU."""
    row = session.scalar(
        select(MeasuredSeries)
        .join(MeasuredPoint, MeasuredPoint.series_id == MeasuredSeries.id)
        .where(MeasuredSeries.repository == repository, MeasuredSeries.gpu == gpu)
        .where(MeasuredPoint.source == PointSource.night.value)
        .order_by(MeasuredPoint.measured_at.desc(), MeasuredPoint.id.desc())
        .limit(1)
    )
    return None if row is None else key_of(row).testbed
