"""Checkpoints that nobody answers: reminded of once, and ended after a while, so that no job waits for ever."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from workers.contracts import JobState, ReminderUpdate, StageName, StageState
from workers.store import lifecycle, reviews, updates
from workers.store.models import Job, OutboxUpdate, StageAttempt
from workers.store.text import iso

DAY_S = 86_400.0
EXPIRED_BY = "nobody"


@dataclass(frozen=True)
class Patience:
    """How many days a checkpoint waits before it is reminded of, and before its job ends; 0 is never."""

    reminder_days: float
    expiry_days: float


def attend(session: Session, patience: Patience, now: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Remind of checkpoints and end those that waited too long; give the jobs of either."""
    reminded, expired = [], []
    for job_id in _waiting(session, patience, now):
        job = lifecycle.locked(session, job_id)
        row = None if job is None else lifecycle.active_attempt(session, job)
        if job is None or row is None or row.state != StageState.waiting or row.ended_at is None:
            continue
        days = (now - row.ended_at) / DAY_S
        if 0 < patience.expiry_days <= days:
            why = f"nobody decided at the checkpoint of `{row.stage}` in {patience.expiry_days:g} days"
            reviews.cancel(session, job, EXPIRED_BY, now, why)
            expired.append(job_id)
        elif 0 < patience.reminder_days <= days and _remind(session, job, row, patience, now):
            reminded.append(job_id)
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


def _remind(session: Session, job: Job, row: StageAttempt, patience: Patience, now: float) -> bool:
    key = f"{row.stage}/{row.attempt}/reminder"
    known = select(OutboxUpdate.id).where(OutboxUpdate.job_id == job.job_id, OutboxUpdate.dedupe_key == key)
    if session.scalar(known) is not None or row.ended_at is None:
        return False
    ends = row.ended_at + patience.expiry_days * DAY_S if patience.expiry_days > 0 else None
    stage = StageName(row.stage)
    reminder = ReminderUpdate(stage, row.attempt, iso(row.ended_at) or "", iso(ends))
    updates.append(session, job, reminder, now, key=key, stage=stage, attempt=row.attempt)
    lifecycle.record(session, job, "reminded", f"{row.stage}, attempt {row.attempt}", now)
    return True
