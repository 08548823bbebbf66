"""What people decide on a job, and checkpoints on which nobody decides; each part of one transaction on the locked job."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from gpu_runner.contracts import to_json
from workers.authors.protocol import Feedback
from workers.contracts import (
    Decision,
    DecisionOutcome,
    DecisionResult,
    JobState,
    LineComment,
    ReminderUpdate,
    ReportUpdate,
    StageName,
    StageState,
)
from workers.pipelines import PIPELINES
from workers.pipelines.transitions import Waiting, after_approval, judge
from workers.store import jobs, updates
from workers.store.codec import read_request
from workers.store.jobs import branch_of
from workers.store.leases import LONGEST_WAIT_S
from workers.store.models import Job, OutboxUpdate, ReviewDecision, StageAttempt
from workers.store.views import checkpoint_sha
from workers.times import iso

MAX_FEEDBACK = 20_000


@dataclasses.dataclass(frozen=True)
class DecidedReview:
    """A decision as it was made; ``key`` makes it unique, ``stage`` None means whichever checkpoint waits."""

    key: str
    stage: StageName | None
    sha: str
    decision: Decision
    by: str
    feedback: str = ""
    lines: tuple[LineComment, ...] = ()


def decide(session: Session, job: Job, review: DecidedReview, now: float) -> DecisionResult:
    """Judge a review and carry it out; idempotent."""
    known = session.scalar(select(ReviewDecision).where(ReviewDecision.key == review.key))
    if known is not None:
        return DecisionResult(DecisionOutcome.duplicate, known.job_id, StageName(known.stage), known.sha)
    row = jobs.active_attempt(session, job)
    if row is None or row.state != StageState.waiting:
        return DecisionResult(DecisionOutcome.nothing_waits, job.job_id)
    sha = checkpoint_sha(session, job, row)
    stage = StageName(row.stage)
    waiting = Waiting(stage, sha, jobs.attempts_of(session, job, row.stage))
    outcome = judge(waiting, review.decision, review.stage, review.sha)
    if outcome is DecisionOutcome.accepted:
        _keep(session, job, row, review, sha or review.sha, now)
        _carry_out(session, job, row, review, now)
    return DecisionResult(outcome, job.job_id, stage, sha)


def cancel(session: Session, job: Job, by: str, now: float, why: str = "") -> bool:
    """Cancel a job and everything it has running; False where it has ended already."""
    if job.state in jobs.FINAL:
        return False
    jobs.stop_work(session, job, StageState.cancelled, now)
    updates.drop_pending(session, job)
    job.state = JobState.cancelled
    jobs.record(session, job, "cancelled", f"ended: {why}" if why else f"cancelled by {by}", now)
    updates.append(session, job, ReportUpdate(cancelled_by=by, why=why), now)
    updates.append_status(session, job, now)
    return True


def retry(session: Session, job: Job, by: str, fresh: tuple[str, str] | None, now: float) -> bool:
    """Have a job that failed or was cancelled go on from where it stopped, or start over on a fresh (snapshot, base commit)."""
    if job.state not in (JobState.failed, JobState.cancelled):
        return False
    if job.artifacts_removed_at is not None and fresh is None:
        return False
    request = read_request(job.request)
    failed = _stopped_attempt(session, job)
    job.failure = job.artifacts_removed_at = None
    if fresh is not None or failed is None:
        if fresh is not None:
            request = dataclasses.replace(request, snapshot=fresh[0], base_sha=fresh[1])
        # What was to be published belongs to the old snapshot, and would end up on the new branch.
        updates.drop_pending(session, job)
        job.request = to_json(request)
        job.generation += 1
        job.branch = branch_of(job.kernel, job.job_id, job.generation)
        job.head_sha = job.pull_number = job.pull_closed_at = None
        jobs.start_attempt(session, job, PIPELINES[request.verb][0].stage, [], now)
    else:
        jobs.start_attempt(session, job, StageName(failed.stage), list(failed.feedback), now)
    jobs.record(session, job, "retried", f"retried by {by}", now)
    updates.append_status(session, job, now)
    return True


def _stopped_attempt(session: Session, job: Job) -> StageAttempt | None:
    """The last attempt that ended with its job: all that the job had when it stopped ended then, that stage first."""
    query = (
        select(StageAttempt)
        .where(
            StageAttempt.job_id == job.job_id,
            StageAttempt.generation == job.generation,
            StageAttempt.state.in_((StageState.failed, StageState.cancelled)),
        )
        .order_by(StageAttempt.id.desc())
    )
    return session.scalar(query.limit(1))


def _keep(session: Session, job: Job, row: StageAttempt, review: DecidedReview, sha: str, now: float) -> None:
    row.sha, row.decision, row.decided_by = sha, review.decision.value, review.by
    session.add(
        ReviewDecision(
            key=review.key,
            job_id=job.job_id,
            stage=row.stage,
            attempt=row.attempt,
            sha=sha,
            decision=review.decision.value,
            decided_by=review.by,
            at=now,
        )
    )
    jobs.record(session, job, "decided", f"{review.decision.value} of {row.stage} by {review.by}", now)


def _carry_out(session: Session, job: Job, row: StageAttempt, review: DecidedReview, now: float) -> None:
    stage = StageName(row.stage)
    if review.decision is Decision.approve:
        row.state = StageState.done
        pipeline = PIPELINES[read_request(job.request).verb]
        jobs.make_move(session, job, after_approval(pipeline, stage), now)
    else:
        row.state = StageState.revised
        asked = [*row.feedback, *(to_json(item) for item in _feedback(review))]
        jobs.start_attempt(session, job, stage, asked, now)
    updates.append_status(session, job, now)


def _feedback(review: DecidedReview) -> tuple[Feedback, ...]:
    text = review.feedback.strip()[:MAX_FEEDBACK]
    whole = (Feedback(text),) if text else ()
    return whole + tuple(Feedback(item.body[:MAX_FEEDBACK], item.path, item.line) for item in review.lines)


DAY_S = 86_400.0
EXPIRED_BY = "nobody"


@dataclass(frozen=True)
class Patience:
    """How many days a checkpoint waits before it is reminded of, and before its job ends; 0 is never."""

    reminder_days: float
    expiry_days: float


def attend(session: Session, patience: Patience, now: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Remind of checkpoints and end those that waited too long; give the jobs of either.

    Between the two lie as many days as there should, also where the reminder came late, as after an outage, or a clock jumped.
    """
    reminded, expired = [], []
    between_s = (patience.expiry_days - patience.reminder_days) * DAY_S
    reminds = patience.reminder_days > 0 and (patience.expiry_days == 0 or between_s > 0)
    for job_id in _waiting(session, patience, now):
        job = jobs.locked(session, job_id)
        row = None if job is None else jobs.active_attempt(session, job)
        if job is None or row is None or row.state != StageState.waiting or row.ended_at is None:
            continue
        days = (now - row.ended_at) / DAY_S
        at = _reminded_at(session, job, row)
        if reminds and at is None:
            if patience.reminder_days <= days:
                _remind(session, job, row, patience, now)
                reminded.append(job_id)
        elif 0 < patience.expiry_days <= days and (at is None or not now - between_s < at <= now + LONGEST_WAIT_S):
            why = f"nobody decided at the checkpoint of `{row.stage}` in {patience.expiry_days:g} days"
            cancel(session, job, EXPIRED_BY, now, why)
            expired.append(job_id)
    return tuple(reminded), tuple(expired)


def _waiting(session: Session, patience: Patience, now: float) -> tuple[str, ...]:
    soonest = min((days for days in (patience.reminder_days, patience.expiry_days) if days > 0), default=None)
    if soonest is None:
        return ()
    query = (
        select(StageAttempt.job_id)
        .join(Job, Job.job_id == StageAttempt.job_id)
        .where(
            Job.state == JobState.waiting,
            Job.number > 0,  # at a terminal somebody sits, or will again
            StageAttempt.state == StageState.waiting,
            StageAttempt.ended_at <= now - soonest * DAY_S,
        )
    )
    return tuple(session.scalars(query))


def _reminder_key(row: StageAttempt) -> str:
    return f"{row.stage}/{row.attempt}/reminder"


def _reminded_at(session: Session, job: Job, row: StageAttempt) -> float | None:
    query = select(OutboxUpdate.created_at)
    return session.scalar(query.where(OutboxUpdate.job_id == job.job_id, OutboxUpdate.dedupe_key == _reminder_key(row)))


def _remind(session: Session, job: Job, row: StageAttempt, patience: Patience, now: float) -> None:
    waited_since, stage = row.ended_at or now, StageName(row.stage)
    ends = max(
        waited_since + patience.expiry_days * DAY_S, now + (patience.expiry_days - patience.reminder_days) * DAY_S
    )
    reminder = ReminderUpdate(
        stage, row.attempt, iso(waited_since) or "", iso(ends) if patience.expiry_days > 0 else None
    )
    updates.append(session, job, reminder, now, key=_reminder_key(row), stage=stage, attempt=row.attempt)
    jobs.record(session, job, "reminded", f"{row.stage}, attempt {row.attempt}", now)
