"""Changes of a job's row and its attempts, made by whoever has the job locked."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from gpu_runner.contracts import to_json
from workers.contracts import Failure, JobState, ReportUpdate, StageName, StageState
from workers.pipelines.transitions import Move, Next
from workers.store import updates
from workers.store.models import Event, GpuWork, Job, StageAttempt
from workers.store.text import storable

FINAL = (JobState.done, JobState.failed, JobState.cancelled)
ACTIVE_STAGES = (StageState.pending, StageState.running, StageState.waiting)


def locked(session: Session, job_id: str) -> Job | None:
    """Give a job that nobody else can change until the transaction ends."""
    query = select(Job).where(Job.job_id == job_id).with_for_update(key_share=True)
    return session.scalar(query)


def record(session: Session, job: Job, kind: str, text: str, now: float) -> None:
    """Write down that something happened to a job."""
    session.add(Event(job_id=job.job_id, at=now, kind=kind, text=storable(text, 1000)))


def active_attempt(session: Session, job: Job) -> StageAttempt | None:
    """Give the attempt that the job is at, None where it is at none."""
    query = (
        select(StageAttempt)
        .where(StageAttempt.job_id == job.job_id, StageAttempt.state.in_(ACTIVE_STAGES))
        .order_by(StageAttempt.id.desc())
    )
    return session.scalar(query.limit(1))


def attempts_of(session: Session, job: Job, stage: str) -> int:
    """Count the attempts of a stage that reviews have seen since the job started, or started over."""
    query = select(func.count(StageAttempt.id)).where(
        StageAttempt.job_id == job.job_id,
        StageAttempt.generation == job.generation,
        StageAttempt.stage == stage,
        StageAttempt.state.in_((StageState.waiting, StageState.revised)),
    )
    return session.scalar(query) or 0


def start_attempt(session: Session, job: Job, stage: StageName, feedback: list[Any], now: float) -> None:
    """Make the next attempt of a stage ready to run."""
    query = select(func.max(StageAttempt.attempt)).where(
        StageAttempt.job_id == job.job_id, StageAttempt.stage == stage.value
    )
    attempt = (session.scalar(query) or 0) + 1
    session.add(
        StageAttempt(
            job_id=job.job_id,
            generation=job.generation,
            stage=stage.value,
            attempt=attempt,
            state=StageState.pending,
            feedback=feedback,
            notified_at=now,
        )
    )
    job.state = JobState.queued
    session.flush()


def make_move(session: Session, job: Job, move: Next, now: float) -> None:
    """Carry out what follows a stage."""
    if move.move is Move.wait:
        job.state = JobState.waiting
    elif move.stage is not None:
        start_attempt(session, job, move.stage, [], now)
    else:
        job.state = JobState.done
        record(session, job, "done", "the job is done", now)


def stop_work(session: Session, job: Job, state: StageState, now: float) -> None:
    """Take back whatever the job still has running or waiting, attempts and GPU requests alike."""
    session.execute(
        update(StageAttempt)
        .where(StageAttempt.job_id == job.job_id, StageAttempt.state.in_(ACTIVE_STAGES))
        .values(state=state, ended_at=now, lease_token=None, lease_until=None)
    )
    stop_gpu_work(session, job, now)


def stop_gpu_work(session: Session, job: Job, now: float) -> None:
    """Take back the GPU requests that a job still has running or waiting."""
    session.execute(
        update(GpuWork)
        .where(GpuWork.job_id == job.job_id, GpuWork.state.in_(("pending", "running")))
        .values(state="cancelled", ended_at=now, lease_token=None, lease_until=None)
    )


def fail(session: Session, job: Job, failure: Failure, now: float, *, report: bool = True) -> None:
    """End a job with a failure, and say so."""
    job.state = JobState.failed
    job.failure = to_json(failure)
    record(session, job, "failed", failure.message, now)
    if report:
        updates.append(session, job, ReportUpdate(failure=failure), now)
    updates.append_status(session, job, now)
