"""Finding work that waits, for processes that look for it themselves and for reconcile."""

from __future__ import annotations

from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session

from workers.contracts import JobState, StageState
from workers.store import attempts, gpu_work
from workers.store.leases import is_over
from workers.store.models import GpuWork, Job, StageAttempt
from workers.store.swap import swapped

WORKING = (JobState.queued, JobState.running)
LONGEST_PAUSE_S = 600.0


def next_job(session: Session, now: float, only: str | None = None) -> str | None:
    """Give the oldest job whose stage can be run now; with ``only``, that job or none."""
    query = (
        select(StageAttempt.job_id)
        .join(Job, Job.job_id == StageAttempt.job_id)
        .where(attempts.runnable(now), Job.state.in_(WORKING))
        .order_by(Job.id)
    )
    if only is not None:
        query = query.where(Job.job_id == only)
    return session.scalar(query.limit(1))


def next_gpu_request(
    session: Session, now: float, architectures: tuple[str, ...] | None = None, only: str | None = None
) -> str | None:
    """Give the oldest GPU request that a host can take now; ``architectures`` None means all, ``only`` names a job."""
    query = select(GpuWork.request_id).where(gpu_work.claimable(now)).order_by(GpuWork.id)
    if architectures is not None:
        query = query.where(GpuWork.architecture.in_(architectures))
    if only is not None:
        query = query.where(GpuWork.job_id == only)
    return session.scalar(query.limit(1))


def due_at(session: Session) -> float | None:
    """Give when the next stage that waits for its turn to be tried again can be run."""
    query = select(func.min(StageAttempt.not_before)).where(
        StageAttempt.state.in_((StageState.pending, StageState.running)),
        StageAttempt.not_before > 0,
        StageAttempt.lease_token.is_(None),
    )
    return session.scalar(query)


def unheard_jobs(session: Session, now: float, since: float) -> tuple[str, ...]:
    """Give the jobs whose stage can be run and of which nobody was told after ``since``, marked as told now."""
    query = (
        select(StageAttempt.id, StageAttempt.job_id)
        .join(Job, Job.job_id == StageAttempt.job_id)
        .where(attempts.runnable(now), Job.state.in_(WORKING), is_over(StageAttempt.notified_at, since))
        .order_by(StageAttempt.id)
    )
    told = []
    for row_id, job_id in session.execute(query).all():
        marked = swapped(
            session,
            update(StageAttempt)
            .where(StageAttempt.id == row_id, is_over(StageAttempt.notified_at, since))
            .values(notified_at=now),
        )
        if marked == 1:
            told.append(job_id)
    return tuple(told)


def unheard_gpu_requests(session: Session, now: float, since: float) -> tuple[tuple[str, str], ...]:
    """Give the GPU requests that wait, with their architecture, of which nobody was told after ``since``; marked as told now."""
    query = (
        select(GpuWork.id, GpuWork.request_id, GpuWork.architecture)
        .where(
            gpu_work.claimable(now),
            is_over(GpuWork.notified_at, since),
            # The pauses double, so that a queue which no host serves does not fill up; they end somewhere, so that a host
            # that comes back after a night, to a Redis that was emptied meanwhile, is not left idle for another one.
            or_(
                now - GpuWork.notified_at >= GpuWork.notified_at - GpuWork.created_at,
                now - GpuWork.notified_at >= LONGEST_PAUSE_S,
                GpuWork.notified_at > now,  # by a clock that has been put back since
            ),
        )
        .order_by(GpuWork.id)
    )
    told = []
    for row_id, request_id, architecture in session.execute(query).all():
        marked = swapped(
            session,
            update(GpuWork).where(GpuWork.id == row_id, is_over(GpuWork.notified_at, since)).values(notified_at=now),
        )
        if marked == 1:
            told.append((request_id, architecture))
    return tuple(told)
