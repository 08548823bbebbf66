"""Which jobs are past retention, and which artifacts the others still name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from sqlalchemy import ColumnElement, and_, or_, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from workers.models.recording import is_record
from workers.store import jobs
from workers.store.codec import read_request
from workers.store.history import INSERT
from workers.store.models import Artifact, Cleanup, GpuWork, Job, ModelAnswer, OutboxUpdate, StageAttempt, StageMemo
from workers.store.updates import PENDING

DIGEST = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
CLEANUP_ID = 1
MOST_S = 2 * 86_400.0  # passes are made daily: twice that, so that what is behind after an outage catches up
AGAIN_S = 43_200.0  # a service that is restarted over and over makes a pass each time
BATCH = 200  # rows: a result of a GPU host can be megabytes


def counted_to(session: Session, now: float) -> float:
    """Up to when ages are counted: now, unless the clock has jumped ahead since the pass before, or no pass was made for long."""
    row = session.get(Cleanup, CLEANUP_ID)
    return now if row is None else min(row.counted_to, now)


def move_on(session: Session, now: float) -> None:
    """Count ages up to now, but by no more than ``MOST_S`` at once, and not again before ``AGAIN_S`` are over."""
    first = INSERT[session.get_bind().dialect.name](Cleanup).values(id=CLEANUP_ID, counted_to=now, moved_at=now)
    session.execute(first.on_conflict_do_nothing())
    row = session.get_one(Cleanup, CLEANUP_ID, with_for_update=True)
    if not row.moved_at <= now < row.moved_at + AGAIN_S:
        row.counted_to, row.moved_at = min(now, row.counted_to + MOST_S), now


def pull_closed(session: Session, repository: str, number: int, closed_at: float | None) -> None:
    """Note for its jobs that a pull request was closed, or with None that it is open again."""
    own = or_(Job.pull_number == number, and_(Job.pull_number.is_(None), Job.number == number))
    session.execute(update(Job).where(Job.repository == repository, own).values(pull_closed_at=closed_at))


def expired(session: Session, before: float) -> tuple[str, ...]:
    """The jobs that ended before a time, whose pull request was closed before it, and whose artifacts are still there."""
    unpublished = select(OutboxUpdate.id).where(OutboxUpdate.job_id == Job.job_id, OutboxUpdate.state == PENDING)
    query = select(Job).where(
        Job.state.in_(jobs.FINAL),
        Job.updated_at < before,
        Job.artifacts_removed_at.is_(None),
        ~unpublished.exists(),
    )
    return tuple(job.job_id for job in session.scalars(query.order_by(Job.id)) if not _keeps_pull_open(job, before))


def forget(session: Session, job_id: str, before: float, now: float) -> bool:
    """Give up a job's artifacts, but for the records of its questions; False where it goes on meanwhile, or is open again."""
    job = jobs.locked(session, job_id)
    if job is None or job.state not in jobs.FINAL or job.updated_at >= before or _keeps_pull_open(job, before):
        return False
    job.artifacts_removed_at = now
    for row in session.scalars(select(Artifact).where(Artifact.job_id == job_id)):
        if not is_record(row.name):
            session.delete(row)
    return True


def needed(session: Session, but: tuple[str, ...] = ()) -> frozenset[str]:
    """Every digest named by a row of a job whose artifacts are still kept, and those of all records of questions.

    Whatever looks like a digest counts as one: a superfluous artifact costs little. ``but`` names jobs that are
    treated as if their artifacts had been given up.
    """
    there = and_(Job.artifacts_removed_at.is_(None), Job.job_id.not_in(but))
    digests: set[str] = set(session.scalars(select(ModelAnswer.record)))
    for row in session.execute(select(Artifact.name, Artifact.digest, there).join(Job, Job.job_id == Artifact.job_id)):
        if row[2] or is_record(row[0]):
            digests.add(row[1])
    for texts in _texts(session, there):
        for text in texts:
            digests.update(DIGEST.findall(text))
    return frozenset(digests)


def knows_jobs(session: Session) -> bool:
    """Whether there was ever a job."""
    return session.scalar(select(Job.id).limit(1)) is not None


def _keeps_pull_open(job: Job, before: float) -> bool:
    has_pull = job.pull_number is not None or read_request(job.request).origin.is_pull
    return has_pull and (job.pull_closed_at is None or job.pull_closed_at >= before)


def _texts(session: Session, there: ColumnElement[bool]) -> Iterator[list[str]]:
    of_jobs: tuple[tuple[InstrumentedAttribute[str], tuple[InstrumentedAttribute[object], ...]], ...] = (
        (StageAttempt.job_id, (StageAttempt.feedback, StageAttempt.output)),
        (GpuWork.job_id, (GpuWork.request, GpuWork.files, GpuWork.result)),
        (OutboxUpdate.job_id, (OutboxUpdate.body, OutboxUpdate.effect)),
    )
    queries = [select(Job.request).where(there)]
    queries += [select(*columns).join(Job, Job.job_id == job_id).where(there) for job_id, columns in of_jobs]
    memos = select(StageMemo.value).join(StageAttempt, StageAttempt.id == StageMemo.attempt_id)
    queries.append(memos.join(Job, Job.job_id == StageAttempt.job_id).where(there))
    for query in queries:
        for row in session.execute(query, execution_options={"yield_per": BATCH}):
            yield [json.dumps(value) for value in row]
