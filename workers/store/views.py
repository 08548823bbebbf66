"""Rows as the views that other rooms see."""

from __future__ import annotations

from statistics import median_low

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from workers.contracts import (
    ArtifactView,
    CheckpointView,
    Decision,
    JobState,
    JobView,
    StageName,
    StageState,
    StageView,
    TimelineEvent,
)
from workers.pipelines import PIPELINES
from workers.store import attempts as leased
from workers.store import gpu_work, updates
from workers.store.codec import read_failure, read_request
from workers.store.models import Artifact, Event, GpuWork, Job, StageAttempt
from workers.times import iso

MAX_EVENTS = 500
RECENT_REQUESTS = 20


# A comment is written of each view, and a view of each state: the statements are built once.
_ATTEMPTS = select(StageAttempt).where(StageAttempt.job_id == bindparam("job_id")).order_by(StageAttempt.id)
_DECIDED = (
    select(StageAttempt)
    .where(StageAttempt.job_id == bindparam("job_id"), StageAttempt.decision.is_not(None))
    .order_by(StageAttempt.id.desc())
    .limit(1)
)
_ARTIFACTS = select(Artifact).where(Artifact.job_id == bindparam("job_id")).order_by(Artifact.id)
_EVENTS = select(Event).where(Event.job_id == bindparam("job_id")).order_by(Event.id.desc()).limit(MAX_EVENTS)
_AWAITED = select(GpuWork).where(GpuWork.request_id == bindparam("request_id"))


def view(session: Session, job: Job, now: float) -> JobView:
    """All that is shown of a job at a time."""
    request = read_request(job.request)
    attempts = session.scalars(_ATTEMPTS, {"job_id": job.job_id}).all()
    work = _awaited(session, job, attempts[-1] if attempts else None)
    stuck = None if work is None else gpu_work.waiting_of(session, work, now)
    position, wait_s = _queue(session, job, work)
    return JobView(
        job_id=job.job_id,
        request=request,
        state=JobState(job.state),
        pipeline=tuple(step.stage for step in PIPELINES[request.verb]),
        stages=tuple(_stage(row) for row in attempts),
        created_at=iso(job.created_at) or "",
        updated_at=iso(job.updated_at) or "",
        branch=job.branch,
        head_sha=job.head_sha,
        pull_number=job.pull_number,
        checkpoint=_checkpoint(session, job, attempts[-1] if attempts else None),
        failure=read_failure(job.failure),
        queue_position=position,
        expected_wait_s=wait_s,
        no_host_since=None if stuck is None else iso(stuck.since),
        host_lost=stuck is not None and stuck.lost_host is not None,
        host_trouble=None if stuck is None else stuck.trouble,
        artifacts_removed=job.artifacts_removed_at is not None,
        losses=_losses(job, attempts[-1] if attempts else None, work, now),
        artifacts=_artifacts(session, job),
        timeline=_timeline(session, job),
    )


def checkpoint_sha(session: Session, job: Job, row: StageAttempt) -> str | None:
    """The commit that a checkpoint names: the job's last one, once none is left to be published; its base before the first."""
    if row.sha is not None:
        return row.sha
    return None if updates.commits_pending(session, job) else (job.head_sha or read_request(job.request).base_sha)


def _stage(row: StageAttempt) -> StageView:
    return StageView(
        stage=StageName(row.stage),
        attempt=row.attempt,
        state=StageState(row.state),
        note=row.note,
        started_at=iso(row.started_at),
        ended_at=iso(row.ended_at),
        failure=read_failure(row.failure),
    )


def _checkpoint(session: Session, job: Job, last: StageAttempt | None) -> CheckpointView | None:
    waits = last is not None and last.state == StageState.waiting
    row = last if waits else session.scalar(_DECIDED, {"job_id": job.job_id})
    if row is None:
        return None
    return CheckpointView(
        stage=StageName(row.stage),
        attempt=row.attempt,
        sha=checkpoint_sha(session, job, row) if waits else row.sha,
        decision=None if row.decision is None else Decision(row.decision),
        decided_by=row.decided_by,
    )


def _awaited(session: Session, job: Job, last: StageAttempt | None) -> GpuWork | None:
    if last is None or last.awaiting is None or job.state != JobState.running:
        return None
    return session.scalar(_AWAITED, {"request_id": last.awaiting})


def _losses(job: Job, last: StageAttempt | None, work: GpuWork | None, now: float) -> int:
    if last is None or job.state not in (JobState.queued, JobState.running):
        return 0
    return max(leased.losses(last, now), 0 if work is None else gpu_work.losses(work, now))


def _queue(session: Session, job: Job, work: GpuWork | None) -> tuple[int | None, float | None]:
    if job.state == JobState.queued:
        ahead = select(func.count(Job.id)).where(Job.state == JobState.queued, Job.id < job.id)
        return (session.scalar(ahead) or 0) + 1, None
    if work is None or work.state != "pending":
        return None, None
    before = select(func.count(GpuWork.id)).where(
        GpuWork.state.in_(("pending", "running")), GpuWork.architecture == work.architecture, GpuWork.id < work.id
    )
    ahead_count = session.scalar(before) or 0
    usual_s = _usual_duration_s(session, work.architecture)
    return ahead_count + 1, None if usual_s is None else usual_s * ahead_count


def _usual_duration_s(session: Session, architecture: str) -> float | None:
    recent = (
        select(GpuWork.ended_at - GpuWork.started_at)
        .where(GpuWork.architecture == architecture, GpuWork.state == "done", GpuWork.started_at.is_not(None))
        .order_by(GpuWork.id.desc())
        .limit(RECENT_REQUESTS)
    )
    # One during which the clock jumped took what no other did.
    took = [duration_s for duration_s in session.scalars(recent) if duration_s is not None and duration_s >= 0]
    return median_low(took) if took else None


def _artifacts(session: Session, job: Job) -> tuple[ArtifactView, ...]:
    rows = session.scalars(_ARTIFACTS, {"job_id": job.job_id})
    return tuple(ArtifactView(r.name, r.digest, r.media_type, r.size_bytes) for r in rows)


def _timeline(session: Session, job: Job) -> tuple[TimelineEvent, ...]:
    rows = list(session.scalars(_EVENTS, {"job_id": job.job_id}))[::-1]
    return tuple(TimelineEvent(iso(r.at) or "", r.kind, r.text) for r in rows)
