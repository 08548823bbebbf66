"""Taking jobs in and finding them again."""

from __future__ import annotations

import base64
import hashlib

from sqlalchemy import select
from sqlalchemy.orm import Session

from gpu_runner.contracts import to_json
from workers.contracts import JobRequest, JobState, Submission
from workers.pipelines import PIPELINES
from workers.store import lifecycle, updates
from workers.store.models import Job

ACTIVE_JOBS = (JobState.queued, JobState.running, JobState.waiting)


def job_id_of(key: str, salt: int = 0) -> str:
    """Give a job's id: eight letters and digits that follow from the command's key, easy to type in a comment."""
    digest = hashlib.sha256(f"{salt}/{key}".encode()).digest()
    return base64.b32encode(digest[:5]).decode().lower()


def branch_of(kernel: str, job_id: str, generation: int) -> str:
    """Give a job's branch; each start on a new snapshot has its own, so that no pushed work is ever overwritten."""
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
    lifecycle.record(session, job, "submitted", f"{request.verb.value} {request.kernel}", now)
    lifecycle.start_attempt(session, job, PIPELINES[request.verb][0].stage, [], now)
    updates.append_status(session, job, now)
    return Submission(job_id, created=True)


def find(
    session: Session, repository: str, number: int | None, active: bool | None, pull_number: int | None
) -> tuple[Job, ...]:
    """Give the jobs of a repository, oldest first; ``active`` True leaves out those that have ended, False the others."""
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
