"""Requests to GPU hosts: asked, leased, answered or given up; and the hosts and queues that work on them."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, case, func, literal, not_, or_, select, update
from sqlalchemy.orm import Session

from gpu_runner.contracts import GpuRequest, GpuResult, from_json, to_json
from workers.contracts import GpuHost, GpuQueue
from workers.pipelines.transitions import MAX_LOSSES, loss_pause_s
from workers.store import jobs, updates
from workers.store.codec import read_request
from workers.store.leases import NOW, Moment, has_run_out, is_over, is_since, swapped
from workers.store.models import GpuWork, Job, LedgerEntry, StageAttempt

MAX_RUNNER_KILLS = 3
ANY = "any"
GPU_UUID = "GPU-"  # what a GPU's UUID begins with; a request that names one waits in a queue of its own


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
    """The request of a key."""
    return session.scalar(_OF_KEY, {"attempt_id": attempt_id, "key": key})


_OF_KEY = select(GpuWork).where(GpuWork.attempt_id == bindparam("attempt_id"), GpuWork.key == bindparam("key"))


def find_earlier(
    session: Session, row: StageAttempt, key: str, request: GpuRequest, files: dict[str, str]
) -> GpuWork | None:
    """The same request under the same key of an earlier attempt of the stage, if it was answered without an error."""
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
    session: Session,
    job: Job,
    row: StageAttempt,
    key: str,
    request: GpuRequest,
    files: dict[str, str],
    now: float,
    gpu_uuid: str | None = None,
) -> GpuWork:
    """Insert a request, for the host of one GPU where that is named; the attempt waits for it."""
    work = GpuWork(
        request_id=request.request_id,
        job_id=job.job_id,
        attempt_id=row.id,
        key=key,
        architecture=gpu_uuid or read_request(job.request).options.gpu or ANY,
        request=to_json(request),
        files=files,
        state="pending",
        created_at=now,
        notified_at=now,
        offers=1,
    )
    session.add(work)
    jobs.record(session, job, "gpu_requested", f"{request.action.value}: {key}", now)
    return work


def claimable(now: Moment) -> ColumnElement[bool]:
    """The condition under which a host may take a request: nobody has it, or who had it was lost, and no pause is on."""
    return and_(or_(GpuWork.state == "pending", lost(now)), is_over(GpuWork.not_before, now))


def lost(now: Moment) -> ColumnElement[bool]:
    """The condition under which the host that has a request was lost: it has not renewed its lease in time."""
    return and_(GpuWork.state == "running", is_over(GpuWork.lease_until, now))


_REQUEST = GpuWork.request_id == bindparam("of_request")
_CLAIMABLE = select(GpuWork).where(_REQUEST, claimable(NOW))
_JOB_OF = select(GpuWork.job_id).where(_REQUEST)
_TAKE = update(GpuWork).where(GpuWork.id == bindparam("row_id"), GpuWork.tries == bindparam("so_often"), claimable(NOW))
_LEASED = update(GpuWork).where(_REQUEST, GpuWork.lease_token == bindparam("token"), GpuWork.state == "running")


def claim(session: Session, request_id: str, token: str, host: str, now: float, lease_s: float) -> GpuLease | None:
    """Take a request; None where another host has it, or it is answered, or to be given up."""
    work = session.scalar(_CLAIMABLE, {"of_request": request_id, "now": now})
    if work is None or losses(work, now) >= MAX_LOSSES:
        return None
    tries, lost_host = work.tries, work.host if work.state == "running" else None
    lost_so_far = losses(work, now)
    # Whoever looks at the job was told that it waits for a host; the job is locked before its request, as everywhere.
    notified = lost_host is not None or work.trouble is not None or work.offers >= IN_VAIN
    job = jobs.locked(session, work.job_id) if notified else None
    values = {
        "state": "running",
        "lease_token": token,
        "lease_until": now + lease_s,
        "tries": tries + 1,
        "losses": lost_so_far,
        "not_before": now + loss_pause_s(lost_so_far, lease_s),
        "host": host,
        "trouble": None,
        "offers": 0,
        "started_at": now,
    }
    taken = swapped(session, _TAKE, {"row_id": work.id, "so_often": tries, "now": now} | values)
    if taken != 1:
        return None
    if job is not None:
        if lost_host is not None:
            words = f"{work.key}: {lost_host} was lost, {host} has it now; lost over it so far: {lost_so_far}"
            jobs.record(session, job, "gpu_host_lost", words, now)
        updates.append_status(session, job, now)
    return GpuLease(
        from_json(GpuRequest, work.request), dict(work.files), token, tries + 1, work.runner_kills, lost_so_far
    )


def losses(work: GpuWork, now: float) -> int:
    """Count the hosts that were lost over a request, with one whose lease has just run out."""
    return work.losses + int(work.state == "running" and has_run_out(work.lease_until, now))


def renew(session: Session, request_id: str, token: str, now: float, lease_s: float) -> bool:
    """Extend a lease; False where it was lost or the job was cancelled."""
    return swapped(session, _LEASED, {"of_request": request_id, "token": token, "lease_until": now + lease_s}) == 1


def leave(session: Session, request_id: str, token: str) -> None:
    """Release a lease unanswered, as a process does that is ended: nothing was refused, and no host was lost."""
    swapped(
        session,
        _LEASED.values(state="pending", tries=GpuWork.tries - 1, not_before=0.0, lease_token=None, lease_until=None),
        {"of_request": request_id, "token": token},
    )


DECLINED_S = 30.0


def decline(session: Session, request_id: str, host: str, trouble: str, now: float) -> None:
    """Have a request wait for another host, or for this one to be usable again: it counts as no try, and its job says why."""
    work = session.scalar(_CLAIMABLE, {"of_request": request_id, "now": now})
    if work is None:
        return
    words = f"{host}: {trouble}"
    job = jobs.locked(session, work.job_id) if work.trouble != words else None
    declined = swapped(
        session,
        update(GpuWork).where(GpuWork.id == work.id, claimable(now)).values(not_before=now + DECLINED_S, trouble=words),
    )
    if declined == 1 and job is not None and job.state not in jobs.FINAL:
        jobs.record(session, job, "gpu_host_unusable", f"{work.key}: {words}", now)
        updates.append_status(session, job, now)


def offer_again(session: Session, request_id: str, token: str, now: float) -> str | None:
    """Release a lease whose runner was killed, and count that; returns the architecture whose hosts may take the request now."""
    offered = swapped(
        session,
        _LEASED.values(
            state="pending",
            runner_kills=GpuWork.runner_kills + 1,
            not_before=0.0,
            lease_token=None,
            lease_until=None,
            notified_at=now,
            offers=1,
        ),
        {"of_request": request_id, "token": token},
    )
    return (
        session.scalar(select(GpuWork.architecture).where(GpuWork.request_id == request_id)) if offered == 1 else None
    )


def answer(session: Session, request_id: str, token: str, result: GpuResult, now: float) -> str | None:
    """Keep a result under a lease and give the job that waits for it; None where the lease was lost."""
    job_id = session.scalar(_JOB_OF, {"of_request": request_id})
    job = None if job_id is None else jobs.locked(session, job_id)
    values = {"state": "done", "result": to_json(result), "ended_at": now, "lease_token": None, "lease_until": None}
    taken = swapped(session, _LEASED, {"of_request": request_id, "token": token} | values)
    if job is None or taken != 1:
        return None
    _wake(session, request_id)
    outcome = "failed: " + result.error if result.error else f"finished in {result.duration_s:.1f} s"
    jobs.record(session, job, "gpu_finished", f"{result.action.value} {outcome}", now)
    _charge(session, job, request_id, result, now)
    return job.job_id


def _wake(session: Session, request_id: str) -> None:
    """An attempt with several requests at hosts waits for whichever is answered first."""
    session.execute(_WAKE, {"of_request": request_id, "awaiting": request_id})


_WAKE = update(StageAttempt).where(
    StageAttempt.id == select(GpuWork.attempt_id).where(_REQUEST).scalar_subquery(),
    StageAttempt.awaiting.is_not(None),
    StageAttempt.lease_token.is_(None),
)


def give_up(session: Session, request_id: str, now: float) -> str | None:
    """Answer a request whose hosts were lost too often with an error, and give the job that waits for it."""
    work = session.scalar(_CLAIMABLE, {"of_request": request_id, "now": now})
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
    """Whether a request is answered, or not wanted any more."""
    state = session.scalar(select(GpuWork.state).where(_REQUEST), {"of_request": request_id})
    return state not in ("pending", "running")


def result_of(work: GpuWork) -> GpuResult | None:
    """A request's result, None while there is none."""
    return None if work.result is None else from_json(GpuResult, work.result)


def taken_s(now: float, most_s: float) -> ColumnElement[float]:
    """How long a request kept a host busy, in seconds, joined with ``charged``.

    The host's own measure, which no clock that jumps in between changes; while there is none, by the dates, ``most_s`` at most.
    """
    dated = func.coalesce(GpuWork.ended_at, now) - GpuWork.started_at
    return func.coalesce(LedgerEntry.amount, case((dated < 0, 0.0), (dated > most_s, most_s), else_=dated))


def charged() -> ColumnElement[bool]:
    """The condition under which an entry of the ledger is what a request took."""
    return LedgerEntry.key == literal(_CHARGE) + GpuWork.request_id


_CHARGE = "gpu/"


def _charge(session: Session, job: Job, request_id: str, result: GpuResult, now: float) -> None:
    entry = LedgerEntry(
        key=f"{_CHARGE}{request_id}",
        job_id=job.job_id,
        repository=job.repository,
        person=read_request(job.request).origin.author,
        unit="gpu_seconds",
        amount=result.duration_s,
        at=now,
    )
    session.add(entry)


BETWEEN_REQUESTS_S = 60.0
IN_VAIN = 2  # offers, after which no host can be taking it in this moment
SHOWN_S = 7 * 86_400.0  # a host that took nothing for so long is not shown


@dataclass(frozen=True)
class WaitingRequest:
    """A request that no host takes although none is at work in its queue; ``since`` is in seconds since the epoch."""

    request_id: str
    job_id: str
    architecture: str
    since: float
    lost_host: str | None  # who had it, where that is why it waits
    trouble: str | None = None  # a host that could take it, and why it cannot as it is

    @property
    def fix(self) -> str:
        """What an operator does about it."""
        if self.trouble is not None:
            return f"see `gpu_host_unusable` in the log of that host ({self.trouble})"
        where = "a GPU host" if self.architecture == ANY else f"a host of {self.architecture}"
        return f"start `kernelsmith work --only gpu` on {where}, or look there at its log and at `kernelsmith doctor`"


def waiting(session: Session, now: float) -> tuple[WaitingRequest, ...]:
    """The requests that were offered in vain while no host was at work, oldest first."""
    query = select(GpuWork).where(_in_vain(now)).order_by(GpuWork.id)
    return tuple(_waiting(work, now) for work in session.scalars(query) if not _at_work(session, work, now))


def waiting_of(session: Session, work: GpuWork, now: float) -> WaitingRequest | None:
    """How one request waits; None where it runs, or only waits for its turn."""
    waiting = session.scalar(select(GpuWork.id).where(GpuWork.id == work.id, _in_vain(now)))
    return None if waiting is None or _at_work(session, work, now) else _waiting(work, now)


def show(session: Session, waiting: WaitingRequest, now: float) -> None:
    """Have the job's status comment say that it waits for a host."""
    job = jobs.locked(session, waiting.job_id)
    if job is not None and job.state not in jobs.FINAL:
        updates.append_status(session, job, now)


def beyond(session: Session, now: float, most: int) -> tuple[str, ...]:
    """The requests over which so many hosts were lost, with the one that is lost now, that no other may take them."""
    query = select(GpuWork.request_id).where(lost(now), GpuWork.losses + 1 >= most).order_by(GpuWork.id)
    return tuple(session.scalars(query))


def summary(session: Session, now: float) -> tuple[bool, str]:
    """Whether hosts keep up with what is asked of them, and how much there is, in words for an operator."""
    running = session.scalar(select(func.count(GpuWork.id)).where(_live(now))) or 0
    queued = session.scalar(select(func.count(GpuWork.id)).where(claimable(now))) or 0
    stuck = waiting(session, now)
    if not stuck:
        refused = _refused_last(session)
        return refused is None, f"{running} at work, {queued} waiting{refused or ''}"
    first = min(stuck, key=lambda item: item.since)
    lost_one = f"; {first.lost_host} was lost" if first.lost_host else ""
    lost_one += f"; {first.trouble}" if first.trouble else ""
    minutes = max(1, round((now - first.since) / 60))
    return (
        False,
        f"{len(stuck)} waiting for {minutes} min and no host at work, queue gpu.{first.architecture}{lost_one}",
    )


def _refused_last(session: Session) -> str | None:
    """What is wrong where the host that answered last could carry nothing out; its text may name a path, and stays in the log."""
    newest = session.scalar(
        select(GpuWork).where(GpuWork.state == "done").order_by(GpuWork.ended_at.desc(), GpuWork.id.desc()).limit(1)
    )
    error = None if newest is None or newest.result is None else newest.result.get("error")
    kind = re.match(r"[A-Z]\w*(?=: )", error or "")
    return None if error is None else f"; the last request could not be carried out{f': {kind[0]}' if kind else ''}"


def counts(session: Session, now: float) -> dict[str, int]:
    """How many requests are in each state; one whose host was lost counts as ``lost``, not as ``running``."""
    numbers = {row[0]: row[1] for row in session.execute(select(GpuWork.state, func.count()).group_by(GpuWork.state))}
    gone = session.scalar(select(func.count(GpuWork.id)).where(lost(now))) or 0
    numbers["running"] = numbers.get("running", 0) - gone
    return {state: count for state, count in (numbers | {"lost": gone}).items() if count}


def _in_vain(now: float) -> ColumnElement[bool]:
    # Offers are counted, not dated: no clock that is put back makes one look vain, or hides that it was.
    was_offered = or_(GpuWork.offers >= IN_VAIN, GpuWork.trouble.is_not(None))
    return and_(or_(lost(now), GpuWork.state == "pending"), was_offered)


def _live(now: float) -> ColumnElement[bool]:
    return and_(GpuWork.state == "running", not_(is_over(GpuWork.lease_until, now)))


def _at_work(session: Session, work: GpuWork, now: float) -> bool:
    # A host of a named architecture takes requests that name none as well, and one of a named GPU is not known by its queue.
    anywhere = work.architecture == ANY or work.architecture.startswith(GPU_UUID)
    same = [] if anywhere else [GpuWork.architecture.in_((work.architecture, ANY))]
    # A host that has just answered one request has not taken the next one yet.
    just_ended = is_since(GpuWork.ended_at, now - BETWEEN_REQUESTS_S, now)
    just_done = and_(GpuWork.state == "done", GpuWork.host.is_not(None), just_ended)
    return session.scalar(select(GpuWork.id).where(or_(_live(now), just_done), *same).limit(1)) is not None


def _waiting(work: GpuWork, now: float) -> WaitingRequest:
    is_lost = work.state == "running"
    since = work.lease_until if is_lost else max(work.created_at, work.started_at or 0.0)
    lost_host = work.host if is_lost else None
    return WaitingRequest(work.request_id, work.job_id, work.architecture, since or now, lost_host, work.trouble)


def hosts(session: Session, now: float) -> tuple[GpuHost, ...]:
    """The hosts that took a request in the last days, by name."""
    query = select(
        GpuWork.host, GpuWork.architecture, GpuWork.state, GpuWork.lease_until, GpuWork.started_at, GpuWork.ended_at
    ).where(GpuWork.host.is_not(None), GpuWork.started_at > now - SHOWN_S)
    by_name: dict[str, GpuHost] = {}
    for name, architecture, state, lease_until, started_at, ended_at in session.execute(query):
        host = str(name)
        known = by_name.get(host, GpuHost(host, (), 0, 0, 0.0))
        live = state == "running" and lease_until is not None and not has_run_out(lease_until, now)
        by_name[host] = GpuHost(
            host,
            tuple(sorted({*known.queues, architecture})),
            known.running + live,
            known.lost + (state == "running" and not live),
            max(known.last_seen_at_s, now if live else ended_at or started_at or 0.0),
        )
    return tuple(by_name[host] for host in sorted(by_name))


def hosts_of(session: Session, architecture: str | None, now: float) -> tuple[dict[str, str], ...]:
    """The facts that each host gave last which answered a request of a queue in the last days; None: of any queue."""
    return _newest_facts(session, now - SHOWN_S, [] if architecture is None else [GpuWork.architecture == architecture])


def gpu_uuids(session: Session, gpu: str, since: float) -> tuple[str, ...]:
    """The GPUs of a model whose hosts answered a request since a time, by their UUIDs."""
    facts = _newest_facts(session, since, [])
    return tuple(sorted({one["gpu_uuid"] for one in facts if one.get("gpu") == gpu and "gpu_uuid" in one}))


def _newest_facts(session: Session, since: float, where: list[ColumnElement[bool]]) -> tuple[dict[str, str], ...]:
    newest = (
        select(func.max(GpuWork.id))
        .where(GpuWork.state == "done", GpuWork.host.is_not(None), GpuWork.ended_at > since, *where)
        .group_by(GpuWork.host)
    )
    answers = session.scalars(select(GpuWork).where(GpuWork.id.in_(newest)))
    return tuple(dict(result.host) for work in answers if (result := result_of(work)) is not None)


def queues(session: Session, now: float) -> tuple[GpuQueue, ...]:
    """How many requests wait and run in each queue."""
    waiting_now = func.sum(case((claimable(now), 1), else_=0))
    running_now = func.sum(case((_live(now), 1), else_=0))
    query = select(GpuWork.architecture, waiting_now, running_now).where(GpuWork.state.in_(("pending", "running")))
    rows = session.execute(query.group_by(GpuWork.architecture).order_by(GpuWork.architecture))
    return tuple(GpuQueue(name, int(waiting), int(running)) for name, waiting, running in rows)


LONGEST_PAUSE_S = 600.0
MAX_DOUBLINGS = 10


def next_gpu_request(session: Session, now: float, only: str | None = None) -> str | None:
    """The oldest GPU request that a host can take now, of the job ``only`` where that is given."""
    return session.scalar(_next_request(only is not None), {"now": now, "only": only})


@functools.cache
def _next_request(of_one_job: bool) -> Select[str]:
    query = select(GpuWork.request_id).where(claimable(NOW)).order_by(GpuWork.id)
    if of_one_job:
        query = query.where(GpuWork.job_id == bindparam("only"))
    return query.limit(1)


def unheard_gpu_requests(session: Session, now: float, pause_s: float) -> tuple[tuple[str, str], ...]:
    """Waiting GPU requests, with their architecture, whose last offer is longer ago than a pause; counted as offered now."""
    query = select(GpuWork.id, GpuWork.request_id, GpuWork.architecture, GpuWork.offers, GpuWork.notified_at)
    offered = []
    for row_id, request_id, architecture, offers, at in session.execute(
        query.where(claimable(now)).order_by(GpuWork.id)
    ):
        if not offers or has_run_out(at + _offer_pause_s(offers, pause_s), now):
            counted = update(GpuWork).where(GpuWork.id == row_id, GpuWork.offers == offers, claimable(now))
            if swapped(session, counted.values(offers=offers + 1, notified_at=now)) == 1:
                offered.append((request_id, architecture))
    return tuple(offered)


def _offer_pause_s(offers: int, first_s: float) -> float:
    # The pauses double, so that a queue which no host serves does not fill up; they end somewhere, so that a host that comes
    # back after a night, to a Redis that was emptied meanwhile, is not left idle for another one.
    doubled_s = first_s * 2.0 ** min(offers - 2, MAX_DOUBLINGS)
    return max(first_s, min(doubled_s, LONGEST_PAUSE_S))


def forget_offers(session: Session) -> None:
    """Count no offer that was made to hosts of before, as where those of one machine have just been started again."""
    swapped(session, update(GpuWork).where(GpuWork.state.in_(("pending", "running"))).values(offers=0))
