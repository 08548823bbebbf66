"""What the requests themselves tell of GPU hosts: which of them are at work, and what waits because none is."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, case, func, or_, select
from sqlalchemy.orm import Session

from workers.contracts import GpuHost, GpuQueue
from workers.store import lifecycle, updates
from workers.store.gpu_work import ANY, claimable, lost
from workers.store.models import GpuWork

BETWEEN_REQUESTS_S = 60.0
SHOWN_S = 7 * 86_400.0  # a host that took nothing for so long is not shown


@dataclass(frozen=True)
class Waiting:
    """A request that no host takes although none is at work in its queue; ``since`` is in seconds since the epoch."""

    request_id: str
    job_id: str
    architecture: str
    since: float
    lost_host: str | None  # who had it, where that is why it waits

    @property
    def cure(self) -> str:
        """Give what an operator does about it."""
        where = "a GPU host" if self.architecture == ANY else f"a host of {self.architecture}"
        return f"start `kernelsmith work --only gpu` on {where}, or look there at its log and at `kernelsmith doctor`"


def waiting(session: Session, now: float) -> tuple[Waiting, ...]:
    """Give the requests that were offered in vain while no host was at work, oldest first."""
    query = select(GpuWork).where(_in_vain(now)).order_by(GpuWork.id)
    return tuple(_waiting(work, now) for work in session.scalars(query) if not _at_work(session, work, now))


def waiting_of(session: Session, work: GpuWork, now: float) -> Waiting | None:
    """Give how one request waits; None where it runs, or only waits for its turn."""
    found = session.scalar(select(GpuWork.id).where(GpuWork.id == work.id, _in_vain(now)))
    return None if found is None or _at_work(session, work, now) else _waiting(work, now)


def show(session: Session, found: Waiting, now: float) -> None:
    """Have the job's status comment say that it waits for a host."""
    job = lifecycle.locked(session, found.job_id)
    if job is not None and job.state not in lifecycle.FINAL:
        updates.append_status(session, job, now)


def beyond(session: Session, now: float, most: int) -> tuple[str, ...]:
    """Give the requests over which so many hosts were lost, with the one that is lost now, that no other may take them."""
    query = select(GpuWork.request_id).where(lost(now), GpuWork.losses + 1 >= most).order_by(GpuWork.id)
    return tuple(session.scalars(query))


def summary(session: Session, now: float) -> tuple[bool, str]:
    """Tell whether hosts keep up with what is asked of them, and how much there is, in words for an operator."""
    running = session.scalar(select(func.count(GpuWork.id)).where(_live(now))) or 0
    queued = session.scalar(select(func.count(GpuWork.id)).where(claimable(now))) or 0
    stuck = waiting(session, now)
    if not stuck:
        return True, f"{running} at work, {queued} waiting"
    first = min(stuck, key=lambda item: item.since)
    lost_one = f"; {first.lost_host} was lost" if first.lost_host else ""
    minutes = max(1, round((now - first.since) / 60))
    return (
        False,
        f"{len(stuck)} waiting for {minutes} min and no host at work, queue gpu.{first.architecture}{lost_one}",
    )


def counts(session: Session, now: float) -> dict[str, int]:
    """Give how many requests are in each state; one whose host was lost counts as ``lost``, not as ``running``."""
    found = {row[0]: row[1] for row in session.execute(select(GpuWork.state, func.count()).group_by(GpuWork.state))}
    gone = session.scalar(select(func.count(GpuWork.id)).where(lost(now))) or 0
    found["running"] = found.get("running", 0) - gone
    return {state: count for state, count in (found | {"lost": gone}).items() if count}


def _in_vain(now: float) -> ColumnElement[bool]:
    # A request that was never offered again is one that a host may be taking in this moment.
    return or_(lost(now), and_(GpuWork.state == "pending", GpuWork.notified_at > GpuWork.created_at))


def _live(now: float) -> ColumnElement[bool]:
    return and_(GpuWork.state == "running", GpuWork.lease_until > now)


def _at_work(session: Session, work: GpuWork, now: float) -> bool:
    # A host of a named architecture takes requests that name none as well.
    same = [] if work.architecture == ANY else [GpuWork.architecture.in_((work.architecture, ANY))]
    # A host that has just answered one request has not taken the next one yet.
    just_done = and_(GpuWork.state == "done", GpuWork.host.is_not(None), GpuWork.ended_at > now - BETWEEN_REQUESTS_S)
    return session.scalar(select(GpuWork.id).where(or_(_live(now), just_done), *same).limit(1)) is not None


def _waiting(work: GpuWork, now: float) -> Waiting:
    is_lost = work.state == "running"
    since = work.lease_until if is_lost else max(work.created_at, work.started_at or 0.0)
    return Waiting(work.request_id, work.job_id, work.architecture, since or now, work.host if is_lost else None)


def hosts(session: Session, now: float) -> tuple[GpuHost, ...]:
    """Give the hosts that took a request in the last days, by name."""
    query = select(
        GpuWork.host, GpuWork.architecture, GpuWork.state, GpuWork.lease_until, GpuWork.started_at, GpuWork.ended_at
    ).where(GpuWork.host.is_not(None), GpuWork.started_at > now - SHOWN_S)
    found: dict[str, GpuHost] = {}
    for name, architecture, state, lease_until, started_at, ended_at in session.execute(query):
        host = str(name)
        known = found.get(host, GpuHost(host, (), 0, 0, 0.0))
        live = state == "running" and lease_until is not None and lease_until > now
        found[host] = GpuHost(
            host,
            tuple(sorted({*known.queues, architecture})),
            known.running + live,
            known.lost + (state == "running" and not live),
            max(known.last_seen_at_s, now if live else ended_at or started_at or 0.0),
        )
    return tuple(found[host] for host in sorted(found))


def queues(session: Session, now: float) -> tuple[GpuQueue, ...]:
    """Give how many requests wait and run in each queue."""
    waiting_now = func.sum(case((claimable(now), 1), else_=0))
    running_now = func.sum(case((_live(now), 1), else_=0))
    query = select(GpuWork.architecture, waiting_now, running_now).where(GpuWork.state.in_(("pending", "running")))
    rows = session.execute(query.group_by(GpuWork.architecture).order_by(GpuWork.architecture))
    return tuple(GpuQueue(name, int(waiting), int(running)) for name, waiting, running in rows)
