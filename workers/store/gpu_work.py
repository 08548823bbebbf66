"""GPU requests: asked once for each key of an attempt, leased by one host at a time, answered once."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, or_, select, update
from sqlalchemy.orm import Session

from gpu_runner.contracts import GpuRequest, GpuResult, from_json, to_json
from workers.pipelines.transitions import MAX_LOSSES, loss_pause_s
from workers.store import lifecycle, updates
from workers.store.codec import read_request
from workers.store.leases import has_run_out, is_over
from workers.store.models import GpuWork, Job, LedgerEntry, StageAttempt
from workers.store.swap import swapped

MAX_RUNNER_KILLS = 3
ANY = "any"


@dataclass(frozen=True)
class GpuLease:
    """The right to answer one GPU request, and what it asks for; ``files`` maps names to artifact digests."""

    request: GpuRequest
    files: dict[str, str]
    token: str
    tries: int
    runner_kills: int = 0
    losses: int = 0


def find(session: Session, attempt_id: int, key: str) -> GpuWork | None:
    """Give the request of a key."""
    return session.scalar(select(GpuWork).where(GpuWork.attempt_id == attempt_id, GpuWork.key == key))


def find_earlier(
    session: Session, row: StageAttempt, key: str, request: GpuRequest, files: dict[str, str]
) -> GpuWork | None:
    """Give the same request under the same key of an earlier attempt of the stage, if it was answered without an error."""
    query = (
        select(GpuWork)
        .join(StageAttempt, StageAttempt.id == GpuWork.attempt_id)
        .where(
            StageAttempt.job_id == row.job_id,
            StageAttempt.stage == row.stage,
            StageAttempt.id < row.id,
            GpuWork.key == key,
            GpuWork.state == "done",
        )
        .order_by(GpuWork.id.desc())
    )
    for work in session.scalars(query):
        answered = work.result is not None and work.result.get("error") is None
        if answered and work.files == files and _asks(work.request) == _asks(to_json(request)):
            return work
    return None


def _asks(form: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in form.items() if name != "request_id"}


def ask(
    session: Session, job: Job, row: StageAttempt, key: str, request: GpuRequest, files: dict[str, str], now: float
) -> GpuWork:
    """Insert a request; the attempt waits for it."""
    work = GpuWork(
        request_id=request.request_id,
        job_id=job.job_id,
        attempt_id=row.id,
        key=key,
        architecture=read_request(job.request).options.gpu or ANY,
        request=to_json(request),
        files=files,
        state="pending",
        created_at=now,
        notified_at=now,
    )
    session.add(work)
    lifecycle.record(session, job, "gpu_requested", f"{request.action.value}: {key}", now)
    return work


def claimable(now: float) -> ColumnElement[bool]:
    """Give the condition under which a host may take a request: nobody has it, or who had it was lost, and no pause is on."""
    return and_(or_(GpuWork.state == "pending", lost(now)), is_over(GpuWork.not_before, now))


def lost(now: float) -> ColumnElement[bool]:
    """Give the condition under which the host that has a request was lost: it has not renewed its lease in time."""
    return and_(GpuWork.state == "running", is_over(GpuWork.lease_until, now))


def claim(session: Session, request_id: str, host: str, now: float, lease_s: float) -> GpuLease | None:
    """Take a request; None where another host has it, or it is answered, or to be given up."""
    work = session.scalar(select(GpuWork).where(GpuWork.request_id == request_id, claimable(now)))
    if work is None or losses(work, now) >= MAX_LOSSES:
        return None
    token, tries, lost_host = uuid.uuid4().hex, work.tries, work.host if work.state == "running" else None
    lost_so_far = losses(work, now)
    # Whoever looks at the job was told that it waits for a host; the job is locked before its request, as everywhere.
    told = lost_host is not None or work.notified_at > work.created_at
    job = lifecycle.locked(session, work.job_id) if told else None
    taken = swapped(
        session,
        update(GpuWork)
        .where(GpuWork.id == work.id, GpuWork.tries == tries, claimable(now))
        .values(
            state="running",
            lease_token=token,
            lease_until=now + lease_s,
            tries=tries + 1,
            losses=lost_so_far,
            not_before=now + loss_pause_s(lost_so_far, lease_s),
            host=host,
            started_at=now,
        ),
    )
    if taken != 1:
        return None
    if job is not None:
        if lost_host is not None:
            words = f"{work.key}: {lost_host} was lost, {host} has it now; lost over it so far: {lost_so_far}"
            lifecycle.record(session, job, "gpu_host_lost", words, now)
        updates.append_status(session, job, now)
    return GpuLease(
        from_json(GpuRequest, work.request), dict(work.files), token, tries + 1, work.runner_kills, lost_so_far
    )


def losses(work: GpuWork, now: float) -> int:
    """Count the hosts that were lost over a request, with one whose lease has just run out."""
    return work.losses + int(work.state == "running" and has_run_out(work.lease_until, now))


def renew(session: Session, request_id: str, token: str, now: float, lease_s: float) -> bool:
    """Extend a lease; False where it was lost or the job was cancelled."""
    done = swapped(
        session,
        update(GpuWork)
        .where(GpuWork.request_id == request_id, GpuWork.lease_token == token, GpuWork.state == "running")
        .values(lease_until=now + lease_s),
    )
    return done == 1


def leave(session: Session, request_id: str, token: str) -> None:
    """Give a lease back unanswered, as a process does that is told to end: nothing was refused, and nobody was lost."""
    swapped(
        session,
        update(GpuWork)
        .where(GpuWork.request_id == request_id, GpuWork.lease_token == token, GpuWork.state == "running")
        .values(state="pending", tries=GpuWork.tries - 1, not_before=0.0, lease_token=None, lease_until=None),
    )


def offer_again(session: Session, request_id: str, token: str, now: float) -> str | None:
    """Give a lease back whose runner was killed, and count that; give the architecture whose hosts may take the request now."""
    offered = swapped(
        session,
        update(GpuWork)
        .where(GpuWork.request_id == request_id, GpuWork.lease_token == token, GpuWork.state == "running")
        .values(
            state="pending",
            runner_kills=GpuWork.runner_kills + 1,
            not_before=0.0,
            lease_token=None,
            lease_until=None,
            notified_at=now,
        ),
    )
    return (
        session.scalar(select(GpuWork.architecture).where(GpuWork.request_id == request_id)) if offered == 1 else None
    )


def answer(session: Session, request_id: str, token: str, result: GpuResult, now: float) -> str | None:
    """Keep a result under a lease and give the job that waits for it; None where the lease was lost."""
    job_id = session.scalar(select(GpuWork.job_id).where(GpuWork.request_id == request_id))
    job = None if job_id is None else lifecycle.locked(session, job_id)
    taken = swapped(
        session,
        update(GpuWork)
        .where(GpuWork.request_id == request_id, GpuWork.lease_token == token, GpuWork.state == "running")
        .values(state="done", result=to_json(result), ended_at=now, lease_token=None, lease_until=None),
    )
    if job is None or taken != 1:
        return None
    outcome = "failed: " + result.error if result.error else f"finished in {result.duration_s:.1f} s"
    lifecycle.record(session, job, "gpu_finished", f"{result.action.value} {outcome}", now)
    _charge(session, job, request_id, result, now)
    return job.job_id


def give_up(session: Session, request_id: str, now: float) -> str | None:
    """Answer a request whose hosts were lost too often with an error, and give the job that waits for it."""
    work = session.scalar(select(GpuWork).where(GpuWork.request_id == request_id, claimable(now)))
    if work is None or losses(work, now) < MAX_LOSSES:
        return None
    request = from_json(GpuRequest, work.request)
    error = f"GPU hosts were lost {losses(work, now)} times while they worked on this"
    result = GpuResult(request.request_id, request.action, None, error=error)
    answered = swapped(
        session,
        update(GpuWork)
        .where(GpuWork.id == work.id, claimable(now))
        .values(state="done", result=to_json(result), ended_at=now, lease_token=None, lease_until=None),
    )
    return work.job_id if answered == 1 else None


def ended(session: Session, request_id: str) -> bool:
    """Tell whether a request is answered, or not wanted any more."""
    state = session.scalar(select(GpuWork.state).where(GpuWork.request_id == request_id))
    return state not in ("pending", "running")


def result_of(work: GpuWork) -> GpuResult | None:
    """Give a request's result, None while there is none."""
    return None if work.result is None else from_json(GpuResult, work.result)


def _charge(session: Session, job: Job, request_id: str, result: GpuResult, now: float) -> None:
    entry = LedgerEntry(
        key=f"gpu/{request_id}",
        job_id=job.job_id,
        repository=job.repository,
        person=read_request(job.request).origin.author,
        unit="gpu_seconds",
        amount=result.duration_s,
        at=now,
    )
    session.add(entry)
