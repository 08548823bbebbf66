"""Publishing the outbox's rows: leases, effects, and what a job learns from them."""

from __future__ import annotations

import functools
from collections.abc import Collection

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from gpu_runner.contracts import to_json
from workers.contracts import ClaimedUpdate, Effect, Failure, JobState, StageState
from workers.store import jobs, updates
from workers.store.codec import read_effect, read_update, storable
from workers.store.leases import NOW, Moment, is_over, swapped
from workers.store.models import Job, OutboxUpdate, StageAttempt
from workers.store.updates import FAILED, PENDING, PUBLISHED, STATUS
from workers.store.views import view


def claimable(now: Moment) -> ColumnElement[bool]:
    """The condition under which an update can be published now: it is its job's first, and nobody has it."""
    other = aliased(OutboxUpdate)
    earliest = (
        select(func.min(other.sequence))
        .where(other.job_id == OutboxUpdate.job_id, other.state == PENDING)
        .scalar_subquery()
    )
    return and_(
        OutboxUpdate.state == PENDING,
        is_over(OutboxUpdate.not_before, now),
        or_(OutboxUpdate.lease_until.is_(None), is_over(OutboxUpdate.lease_until, now)),
        OutboxUpdate.sequence == earliest,
    )


def first(session: Session, now: float, only: str | None = None, under_way: Collection[str] = ()) -> int | None:
    """The row of the oldest update that can be published now and is none of ``under_way``; with ``only``, of that job's."""
    return session.scalar(_first(only is not None), {"now": now, "only": only, "under_way": list(under_way)})


@functools.cache
def _first(of_one_job: bool) -> Select[int]:
    free = [claimable(NOW), OutboxUpdate.update_id.not_in(bindparam("under_way", expanding=True))]
    own = [OutboxUpdate.job_id == bindparam("only")] if of_one_job else []
    return select(OutboxUpdate.id).where(*free, *own).order_by(OutboxUpdate.id).limit(1)


_JOB_OF = select(OutboxUpdate.job_id).where(OutboxUpdate.id == bindparam("row_id"))
_TAKE = (
    update(OutboxUpdate)
    .where(OutboxUpdate.id == bindparam("row_id"), claimable(NOW))
    .values(lease_owner=bindparam("worker"), lease_until=bindparam("until"), tries=OutboxUpdate.tries + 1)
)


def claim(session: Session, row_id: int, worker: str, now: float, lease_s: float) -> ClaimedUpdate | None:
    """Take the lease on an update; None where another publisher was faster."""
    job_id = session.scalar(_JOB_OF, {"row_id": row_id})
    job = None if job_id is None else jobs.locked(session, job_id)
    taken = swapped(session, _TAKE, {"row_id": row_id, "now": now, "worker": worker, "until": now + lease_s})
    if job is None or taken != 1:
        return None
    row = session.get_one(OutboxUpdate, row_id)
    return ClaimedUpdate(
        update_id=row.update_id,
        sequence=row.sequence,
        job=view(session, job, now),
        update=read_update(row.body),
        tries=row.tries,
        effects=_effects(session, job),
        refusals=row.refusals,
        outages=row.outages,
    )


def complete(session: Session, update_id: str, worker: str, effect: Effect, now: float) -> bool:
    """Keep an effect; a commit becomes the job's head, a checkpoint gets its commit."""
    claimed = _claimed(session, update_id, worker)
    if claimed is None:
        return False
    job, row = claimed
    row.state, row.effect, row.published_at = PUBLISHED, to_json(effect), now
    row.lease_owner = row.lease_until = None
    if row.generation == job.generation:
        _learn(session, job, row, effect)
    if row.kind != STATUS:
        jobs.record(session, job, "update_published", row.kind, now)
    return True


def postpone(session: Session, update_id: str, worker: str, error: str, not_before: float, *, refused: bool) -> bool:
    """Postpone an update, and count why: it was ``refused``, or met an outage."""
    claimed = _claimed(session, update_id, worker)
    if claimed is None:
        return False
    _, row = claimed
    row.error, row.not_before = storable(error, 2000), not_before
    row.refusals, row.outages = row.refusals + int(refused), row.outages + int(not refused)
    row.lease_owner = row.lease_until = None
    return True


def give_up(session: Session, update_id: str, worker: str, failure: Failure, now: float) -> bool:
    """Mark an update as impossible. Its job fails, what was to follow is withdrawn, and a report is queued.

    A report that cannot be published, and the status comment of a job that has ended, change nothing more.
    """
    claimed = _claimed(session, update_id, worker)
    if claimed is None:
        return False
    job, row = claimed
    row.state, row.error = FAILED, storable(failure.message, 2000)
    row.lease_owner = row.lease_until = None
    is_report = row.kind == "ReportUpdate"
    jobs.record(session, job, "update_failed", f"{row.kind}: {failure.message}", now)
    ended = job.state in (JobState.failed, JobState.cancelled) or (job.state == JobState.done and row.kind == STATUS)
    if ended or row.generation != job.generation:
        return True
    jobs.stop_work(session, job, StageState.cancelled, now)
    updates.drop_pending(session, job)
    _blame(session, job, row, failure, now)
    jobs.fail(session, job, failure, now, report=not is_report)
    return True


_JOB_OF_UPDATE = select(OutboxUpdate.job_id).where(OutboxUpdate.update_id == bindparam("update_id"))
_TAKEN = select(OutboxUpdate).where(
    OutboxUpdate.update_id == bindparam("update_id"),
    OutboxUpdate.state == PENDING,
    OutboxUpdate.lease_owner == bindparam("worker"),
)


def _claimed(session: Session, update_id: str, worker: str) -> tuple[Job, OutboxUpdate] | None:
    job_id = session.scalar(_JOB_OF_UPDATE, {"update_id": update_id})
    job = None if job_id is None else jobs.locked(session, job_id)
    row = session.scalar(_TAKEN, {"update_id": update_id, "worker": worker})
    return None if job is None or row is None else (job, row)


def _learn(session: Session, job: Job, row: OutboxUpdate, effect: Effect) -> None:
    if row.kind == "CommitUpdate" and effect.sha is not None:
        job.head_sha = effect.sha
    if effect.pull_number is not None:
        job.pull_number = effect.pull_number
    if row.kind == "CheckpointUpdate":
        attempt = _attempt(session, job, row)
        if attempt is not None and attempt.sha is None:
            attempt.sha = job.head_sha


def _blame(session: Session, job: Job, row: OutboxUpdate, failure: Failure, now: float) -> None:
    """Mark the stage whose update failed as failed, so that a retry starts there."""
    attempt = _attempt(session, job, row) if row.stage is not None else _latest(session, job)
    if attempt is not None:
        attempt.state, attempt.failure, attempt.ended_at = StageState.failed, to_json(failure), now
        attempt.output = None


def _attempt(session: Session, job: Job, row: OutboxUpdate) -> StageAttempt | None:
    return session.scalar(
        select(StageAttempt).where(
            StageAttempt.job_id == job.job_id, StageAttempt.stage == row.stage, StageAttempt.attempt == row.attempt
        )
    )


def _latest(session: Session, job: Job) -> StageAttempt | None:
    query = select(StageAttempt).where(StageAttempt.job_id == job.job_id).order_by(StageAttempt.id.desc())
    return session.scalar(query.limit(1))


def _effects(session: Session, job: Job) -> tuple[Effect, ...]:
    forms = session.scalars(_EFFECTS, {"job_id": job.job_id, "generation": job.generation})
    return tuple(read_effect(form) for form in forms if form is not None)


# After a job has started over only its status comment is still the same one.
_EFFECTS = (
    select(OutboxUpdate.effect)
    .where(
        OutboxUpdate.job_id == bindparam("job_id"),
        OutboxUpdate.effect.is_not(None),
        or_(OutboxUpdate.generation == bindparam("generation"), OutboxUpdate.kind == STATUS),
    )
    .order_by(OutboxUpdate.sequence)
)
