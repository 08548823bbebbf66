"""The outbox's rows: appended with the change that causes them, in order within a job, each once."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from sqlalchemy import bindparam, func, select, update
from sqlalchemy.orm import Session

from workers.contracts import RegressionUpdate, StageName, StatusUpdate, Update
from workers.store.codec import update_form
from workers.store.models import Job, OutboxUpdate, StageAttempt

PENDING, PUBLISHED, FAILED, DROPPED = "pending", "published", "failed", "dropped"
STATUS = StatusUpdate.__name__


def append_stage_updates(session: Session, job: Job, row: StageAttempt, updates: Iterable[Update], now: float) -> None:
    """Append what a stage wants published; its index within the attempt makes each unique."""
    for index, item in enumerate(updates):
        key = f"{row.stage}/{row.attempt}/{index}"
        known = select(OutboxUpdate.id).where(OutboxUpdate.job_id == job.job_id, OutboxUpdate.dedupe_key == key)
        if session.scalar(known) is None:
            append(session, job, item, now, key=key, stage=StageName(row.stage), attempt=row.attempt)


def append(
    session: Session,
    job: Job,
    item: Update,
    now: float,
    *,
    key: str | None = None,
    stage: StageName | None = None,
    attempt: int | None = None,
) -> None:
    """Append one update behind all others of the job, whose row the caller has locked."""
    last = session.scalar(_LAST_SEQUENCE, {"job_id": job.job_id})
    row = OutboxUpdate(
        update_id=uuid.uuid4().hex,
        job_id=job.job_id,
        generation=job.generation,
        sequence=(last or 0) + 1,
        dedupe_key=key,
        stage=None if stage is None else stage.value,
        attempt=attempt,
        kind=type(item).__name__,
        body=update_form(item),
        created_at=now,
    )
    session.add(row)
    session.flush()


_LAST_SEQUENCE = select(func.max(OutboxUpdate.sequence)).where(OutboxUpdate.job_id == bindparam("job_id"))
_LAST = (
    select(OutboxUpdate)
    .where(OutboxUpdate.job_id == bindparam("job_id"))
    .order_by(OutboxUpdate.sequence.desc())
    .limit(1)
)


def append_status(session: Session, job: Job, now: float) -> None:
    """Ask for the status comment to be brought up to date, unless the last update asks for just that and nobody has begun it."""
    job.updated_at = now
    last = session.scalar(_LAST, {"job_id": job.job_id})
    if last is None or last.kind != STATUS or last.state != PENDING or last.lease_owner is not None:
        append(session, job, StatusUpdate(), now)


def drop_pending(session: Session, job: Job) -> None:
    """Withdraw what nobody has begun to publish; the caller appends a status update, which shows all that those would have."""
    session.execute(
        update(OutboxUpdate)
        .where(
            OutboxUpdate.job_id == job.job_id,
            OutboxUpdate.state == PENDING,
            OutboxUpdate.lease_owner.is_(None),
        )
        .values(state=DROPPED)
    )


def untold(session: Session, repository: str) -> list[dict[str, Any]]:
    """The newest news of each kernel and GPU model whose issue was not told: GitHub refused it, or its job was stopped."""
    query = (
        select(OutboxUpdate.body, OutboxUpdate.state, OutboxUpdate.effect)
        .join(Job, Job.job_id == OutboxUpdate.job_id)
        .where(Job.repository == repository, OutboxUpdate.kind == RegressionUpdate.__name__)
        .order_by(OutboxUpdate.id)
    )
    newest = {(body["kernel"], body["gpu"]): (body, state, effect) for body, state, effect in session.execute(query)}
    return [
        body
        for body, state, effect in newest.values()
        if state in (DROPPED, FAILED) or (effect is not None and effect.get("skipped"))
    ]


def commits_pending(session: Session, job: Job) -> bool:
    """Whether a commit of the job is still to be published."""
    query = select(OutboxUpdate.id).where(
        OutboxUpdate.job_id == job.job_id, OutboxUpdate.state == PENDING, OutboxUpdate.kind == "CommitUpdate"
    )
    return session.scalar(query.limit(1)) is not None
