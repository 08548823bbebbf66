"""A stage's attempt: who runs it under a lease, what it and its questions to models came to, and which one waits for a worker."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from workers.contracts import NOTIFIED_LOSSES, FailureCode, JobState, StageState
from workers.models.recording import is_record
from workers.pipelines.transitions import loss_pause_s
from workers.store import jobs
from workers.store.codec import read_failure
from workers.store.leases import NOW, Moment, has_run_out, is_over, swapped
from workers.store.models import Artifact, GpuWork, Job, ModelAnswer, StageAttempt, StageMemo
from workers.store.updates import append_status


@dataclass(frozen=True)
class Lease:
    """The right to run one attempt; ``token`` is new each time, so that a lost lease is never mistaken for a current one."""

    job_id: str
    attempt_id: int
    token: str


def runnable(now: Moment) -> ColumnElement[bool]:
    """The condition under which an attempt can be run now."""
    answered = select(GpuWork.id).where(
        GpuWork.request_id == StageAttempt.awaiting, GpuWork.state.in_(("done", "cancelled"))
    )
    return and_(
        StageAttempt.state.in_((StageState.pending, StageState.running)),
        is_over(StageAttempt.not_before, now),
        or_(StageAttempt.lease_token.is_(None), is_over(StageAttempt.lease_until, now)),
        or_(StageAttempt.awaiting.is_(None), answered.exists()),
    )


_RUNNABLE = select(StageAttempt).where(StageAttempt.job_id == bindparam("job_id"), runnable(NOW)).limit(1)
_TAKE = update(StageAttempt).where(StageAttempt.id == bindparam("row_id"), runnable(NOW))


def claim(session: Session, job: Job, token: str, now: float, lease_s: float) -> StageAttempt | None:
    """Take the lease on the job's attempt if it can be run now; a worker that was lost is counted, apart from errors."""
    row = session.scalar(_RUNNABLE, {"job_id": job.job_id, "now": now})
    if row is None or job.state not in (JobState.queued, JobState.running):
        return None
    lost_so_far = losses(row, now)
    lost = lost_so_far > row.losses
    values = {
        "lease_token": token,
        "lease_until": now + lease_s,
        "state": StageState.running,
        "losses": lost_so_far,
        "not_before": now + loss_pause_s(lost_so_far, lease_s),
        "started_at": row.started_at or now,
    }
    taken = swapped(session, _TAKE, {"row_id": row.id, "now": now} | values)
    if taken != 1:
        return None
    first = row.started_at is None
    session.refresh(row)
    if first:
        job.state = JobState.running
        jobs.record(session, job, "stage_started", f"{row.stage}, attempt {row.attempt}", now)
    if lost:
        jobs.record(session, job, "worker_lost", f"{row.stage}; lost over it so far: {lost_so_far}", now)
    if first or (lost and lost_so_far >= NOTIFIED_LOSSES):
        append_status(session, job, now)
    return row


def losses(row: StageAttempt, now: float) -> int:
    """Count the workers that were lost over an attempt since its last progress, with one whose lease has just run out."""
    return row.losses + int(row.lease_token is not None and has_run_out(row.lease_until, now))


def progressed(row: StageAttempt) -> None:
    """Count errors and lost workers anew: something was kept that another run need not do again."""
    row.tries = row.losses = 0


def renew(session: Session, lease: Lease, now: float, lease_s: float) -> bool:
    """Extend a lease; False where it was lost."""
    done = swapped(
        session,
        update(StageAttempt)
        .where(StageAttempt.id == lease.attempt_id, StageAttempt.lease_token == lease.token)
        .values(lease_until=now + lease_s),
    )
    return done == 1


_LEASED = select(StageAttempt).where(
    StageAttempt.id == bindparam("attempt_id"), StageAttempt.lease_token == bindparam("token")
)


def leased(session: Session, lease: Lease) -> tuple[Job, StageAttempt] | None:
    """The locked job and its attempt while the lease is current and the job still runs; None otherwise."""
    job = jobs.locked(session, lease.job_id)
    row = session.scalar(_LEASED, {"attempt_id": lease.attempt_id, "token": lease.token})
    if job is None or row is None or job.state != JobState.running:
        return None
    return job, row


# The pause was for the case that this worker is lost.
RELEASED: dict[str, Any] = {"lease_token": None, "lease_until": None, "not_before": 0.0}


def release(row: StageAttempt) -> None:
    for name, value in RELEASED.items():
        setattr(row, name, value)


def leave(session: Session, token: str) -> None:
    """Release the lease of a token, where there is one."""
    swapped(session, update(StageAttempt).where(StageAttempt.lease_token == token).values(**RELEASED))


def memos(session: Session, attempt_id: int) -> dict[str, Any]:
    """What was kept in an attempt, by key."""
    return {row.key: row.value for row in session.execute(_MEMOS, {"attempt_id": attempt_id})}


_MEMOS = select(StageMemo.key, StageMemo.value).where(StageMemo.attempt_id == bindparam("attempt_id"))


def keep_memo(session: Session, row: StageAttempt, key: str, value: Any) -> None:
    """Keep a value under a key; that is progress, so errors are counted anew."""
    session.add(StageMemo(attempt_id=row.id, key=key, value=value))
    progressed(row)


def keep_artifact(session: Session, job: Job, name: str, digest: str, media_type: str, size_bytes: int) -> None:
    """Name an artifact of a job; the name's earlier one is replaced."""
    row = session.scalar(select(Artifact).where(Artifact.job_id == job.job_id, Artifact.name == name))
    if row is None:
        row = Artifact(job_id=job.job_id, name=name)
        session.add(row)
    row.digest, row.media_type, row.size_bytes = digest, media_type, size_bytes


def finished_output(session: Session, job: Job, stage: str) -> dict[str, Any] | None:
    """The output of the last attempt of a stage that ended well since the job started, or started over."""
    query = (
        select(StageAttempt.output)
        .where(
            StageAttempt.job_id == job.job_id,
            StageAttempt.generation == job.generation,
            StageAttempt.stage == stage,
            StageAttempt.output.is_not(None),
        )
        .order_by(StageAttempt.id.desc())
    )
    return session.scalar(query.limit(1))


def job_state(session: Session, job_id: str) -> str | None:
    """A job's state."""
    return session.scalar(_STATE, {"job_id": job_id})


_STATE = select(Job.state).where(Job.job_id == bindparam("job_id"))


# An attempt that ended for one of these ended through no fault of the answers that it had.
BLAMELESS = (FailureCode.budget, FailureCode.model, FailureCode.environment)


def find_answer(session: Session, row: StageAttempt, key: str, question: str) -> ModelAnswer | None:
    """What was kept under a key, in this attempt or in those right before it that the answers were not to blame for.

    What an earlier attempt kept serves only as an answer to the very same question, by its digest, and is this attempt's then.
    """
    own = _kept_answer(session, row.id, key)
    if own is not None:
        return own
    for earlier in _blameless(session, row):
        kept = _kept_answer(session, earlier.id, key)
        if kept is not None and kept.question == question and kept.answered:
            return keep_answer(session, row, key, question, kept.record, answered=True)
    return None


def keep_answer(
    session: Session, row: StageAttempt, key: str, question: str, record: str, *, answered: bool
) -> ModelAnswer:
    """Keep the record of a question; that is progress, so errors are counted anew."""
    kept = ModelAnswer(attempt_id=row.id, key=key, question=question, record=record, answered=answered)
    session.add(kept)
    progressed(row)
    return kept


def artifacts_of(session: Session, job_id: str) -> tuple[tuple[str, str], ...]:
    """The records of a job's questions, by artifact name and digest, in the order in which they were kept first."""
    rows = session.scalars(select(Artifact).where(Artifact.job_id == job_id).order_by(Artifact.id))
    return tuple((row.name, row.digest) for row in rows if is_record(row.name))


def _kept_answer(session: Session, attempt_id: int, key: str) -> ModelAnswer | None:
    return session.scalar(select(ModelAnswer).where(ModelAnswer.attempt_id == attempt_id, ModelAnswer.key == key))


def _blameless(session: Session, row: StageAttempt) -> list[StageAttempt]:
    query = (
        select(StageAttempt)
        .where(
            StageAttempt.job_id == row.job_id,
            StageAttempt.generation == row.generation,
            StageAttempt.stage == row.stage,
            StageAttempt.id < row.id,
        )
        .order_by(StageAttempt.id.desc())
    )
    blameless: list[StageAttempt] = []
    for earlier in session.scalars(query):
        failure = read_failure(earlier.failure)
        blames = failure is not None and failure.code not in BLAMELESS
        if blames or earlier.state not in (StageState.failed, StageState.cancelled):
            break
        blameless.append(earlier)
    return blameless


WORKING = (JobState.queued, JobState.running)


def next_job(session: Session, now: float, only: str | None = None) -> str | None:
    """The oldest job whose stage can be run now; with ``only``, that job or none."""
    return session.scalar(_next_job(only is not None), {"now": now, "only": only})


@functools.cache
def _next_job(of_one_job: bool) -> Select[str]:
    working = select(StageAttempt.job_id).join(Job, Job.job_id == StageAttempt.job_id)
    own = [Job.job_id == bindparam("only")] if of_one_job else []
    return working.where(runnable(NOW), Job.state.in_(WORKING), *own).order_by(Job.id).limit(1)


def due_at(session: Session) -> float | None:
    """When the next stage that waits for its turn to be tried again can be run."""
    query = select(func.min(StageAttempt.not_before)).where(
        StageAttempt.state.in_((StageState.pending, StageState.running)),
        StageAttempt.not_before > 0,
        StageAttempt.lease_token.is_(None),
    )
    return session.scalar(query)


def unheard_jobs(session: Session, now: float, since: float) -> tuple[str, ...]:
    """Jobs whose stage can be run and that were not announced since ``since``, marked as announced now."""
    query = (
        select(StageAttempt.id, StageAttempt.job_id)
        .join(Job, Job.job_id == StageAttempt.job_id)
        .where(runnable(now), Job.state.in_(WORKING), is_over(StageAttempt.notified_at, since))
        .order_by(StageAttempt.id)
    )
    notified = []
    for row_id, job_id in session.execute(query).all():
        marked = swapped(
            session,
            update(StageAttempt)
            .where(StageAttempt.id == row_id, is_over(StageAttempt.notified_at, since))
            .values(notified_at=now),
        )
        if marked == 1:
            notified.append(job_id)
    return tuple(notified)
