"""A job's row and its attempts: taken in, found again, and changed by whoever has the job locked."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from sqlalchemy import bindparam, func, select, update
from sqlalchemy.orm import Session

from gpu_runner.contracts import to_json
from workers.contracts import Failure, JobRequest, JobState, ReportUpdate, StageName, StageState, Submission
from workers.pipelines import PIPELINES
from workers.pipelines.transitions import Move, Next
from workers.store import updates
from workers.store.codec import storable
from workers.store.models import Event, GpuWork, Job, StageAttempt

FINAL = (JobState.done, JobState.failed, JobState.cancelled)
ACTIVE_STAGES = (StageState.pending, StageState.running, StageState.waiting)


# Statements that a stage executes at each of its steps are built once: to build one takes longer than SQLite works on it.
_LOCKED = select(Job).where(Job.job_id == bindparam("job_id")).with_for_update(key_share=True)


def locked(session: Session, job_id: str) -> Job | None:
    """A job that nobody else can change until the transaction ends."""
    return session.scalar(_LOCKED, {"job_id": job_id})


def record(session: Session, job: Job, kind: str, text: str, now: float) -> None:
    """Write down that something happened to a job."""
    session.add(Event(job_id=job.job_id, at=now, kind=kind, text=storable(text, 1000)))


def active_attempt(session: Session, job: Job) -> StageAttempt | None:
    """The attempt that the job is at, None where it is at none."""
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
    """Withdraw the job's running and waiting attempts and GPU requests."""
    session.execute(
        update(StageAttempt)
        .where(StageAttempt.job_id == job.job_id, StageAttempt.state.in_(ACTIVE_STAGES))
        .values(state=state, ended_at=now, lease_token=None, lease_until=None)
    )
    stop_gpu_work(session, job, now)


def stop_gpu_work(session: Session, job: Job, now: float) -> None:
    """Withdraw the job's running and waiting GPU requests."""
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


ACTIVE_JOBS = (JobState.queued, JobState.running, JobState.waiting)


def job_id_of(key: str, salt: int = 0) -> str:
    """A job's id: eight letters and digits that follow from the command's key, easy to type in a comment."""
    digest = hashlib.sha256(f"{salt}/{key}".encode()).digest()
    return base64.b32encode(digest[:5]).decode().lower()


def branch_of(kernel: str, job_id: str, generation: int) -> str:
    """A job's branch; each start on a new snapshot has its own, so that no pushed work is ever overwritten."""
    suffix = "" if generation == 1 else f"-{generation}"
    return f"kernelsmith/{kernel}-{job_id}{suffix}"


def submit(session: Session, request: JobRequest, now: float) -> Submission:
    """Insert a command's job with its first attempt and its first status update; a known key gives the job it has."""
    known = session.scalar(select(Job.job_id).where(Job.key == request.key))
    if known is not None:
        return Submission(known, created=False)
    job_id = _free_id(session, request.key)
    job = Job(
        job_id=job_id,
        key=request.key,
        repository=request.origin.repository,
        number=request.origin.number,
        kernel=request.kernel,
        request=to_json(request),
        state=JobState.queued,
        generation=1,
        created_at=now,
        updated_at=now,
        branch=branch_of(request.kernel, job_id, 1),
    )
    session.add(job)
    session.flush()
    record(session, job, "submitted", f"{request.verb.value} {request.kernel}", now)
    start_attempt(session, job, PIPELINES[request.verb][0].stage, [], now)
    updates.append_status(session, job, now)
    return Submission(job_id, created=True)


def find(
    session: Session, repository: str, number: int | None, active: bool | None, pull_number: int | None
) -> tuple[Job, ...]:
    """The jobs of a repository, oldest first; ``active`` True leaves out those that have ended, False the others."""
    query = select(Job).where(Job.repository == repository).order_by(Job.id)
    if number is not None:
        query = query.where(Job.number == number)
    if pull_number is not None:
        query = query.where(Job.pull_number == pull_number)
    if active is not None:
        query = query.where(Job.state.in_(ACTIVE_JOBS) if active else Job.state.not_in(ACTIVE_JOBS))
    return tuple(session.scalars(query))


def _free_id(session: Session, key: str) -> str:
    salt = 0
    while session.scalar(select(Job.id).where(Job.job_id == job_id_of(key, salt))) is not None:
        salt += 1
    return job_id_of(key, salt)
