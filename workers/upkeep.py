"""Carries on what was left lying, and removes what nothing needs any more. May run anywhere, at any time, next to itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import structlog

from workers.broker import gpu_queue
from workers.gpu_host.runner import remove_leftovers
from workers.pipelines.transitions import MAX_LOSSES
from workers.runtime import Runtime
from workers.store import attempts, gpu_work, leases, retention
from workers.store.reviews import Patience, attend
from workers.store.spending import give_up_lost

DAY_S = 86_400.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Reconciled:
    """The result of one pass."""

    jobs: tuple[str, ...]  # told again that they can go on
    gpu_requests: tuple[str, ...]  # offered again
    deliveries: int  # leases of lost workers that were taken back
    updates: int
    given_up: tuple[str, ...] = ()  # GPU requests that were answered with an error: their hosts were lost too often

    def __bool__(self) -> bool:
        return bool(self.jobs or self.gpu_requests or self.deliveries or self.updates or self.given_up)


def reconcile(runtime: Runtime) -> Reconciled:
    """Make one pass and return its result."""
    now = runtime.clock()
    since = now - runtime.settings.renotify_after_s
    given_up = _given_up(runtime, now)
    with runtime.database.write() as session:
        jobs = attempts.unheard_jobs(session, now, since)
        requests = gpu_work.unheard_gpu_requests(session, now, runtime.settings.renotify_after_s)
        freed = leases.free_expired(session, now)
        known = tuple(request_id for request_id, _ in requests)
        stuck = tuple(waiting for waiting in gpu_work.waiting(session, now) if waiting.request_id in known)
        for waiting in stuck:
            gpu_work.show(session, waiting, now)
        give_up_lost(session, now)
        patience = Patience(runtime.settings.checkpoint_reminder_days, runtime.settings.checkpoint_expiry_days)
        reminded, expired = attend(session, patience, now)
        counted_to = retention.counted_to(session, now)
        leases.forget_deliveries(session, counted_to - runtime.settings.keep_deliveries_days * DAY_S)
    for job_id in jobs:
        runtime.notifier.advance(job_id)
    for request_id, architecture in requests:
        runtime.notifier.gpu(request_id, architecture)
    for item in stuck:
        log.error("no_gpu_host", job=item.job_id, gpu_request=item.request_id, queue=gpu_queue(item.architecture),
                  waiting_s=round(now - item.since), lost_host=item.lost_host, fix=item.fix)  # fmt: skip
    for job_id in expired:
        log.warning("checkpoint_expired", job=job_id, days=runtime.settings.checkpoint_expiry_days,
                    fix="/kernel retry goes on; KERNELSMITH_CHECKPOINT_EXPIRY_DAYS sets how long one waits")  # fmt: skip
    for job_id in reminded:
        log.info("checkpoint_reminded", job=job_id)
    made = Reconciled(jobs, known, freed.deliveries, freed.updates, given_up)
    if made:
        log.warning("reconciled", jobs=made.jobs, gpu_requests=made.gpu_requests, deliveries=made.deliveries,
                    updates=made.updates, given_up=made.given_up)  # fmt: skip
    return made


def _given_up(runtime: Runtime, now: float) -> tuple[str, ...]:
    # Where the last host is gone, nobody else would come by to say so.
    with runtime.database.read() as session:
        beyond = gpu_work.beyond(session, now, MAX_LOSSES)
    answered = []
    for request_id in beyond:
        with runtime.database.write() as session:
            job_id = gpu_work.give_up(session, request_id, now)
        if job_id is not None:
            log.error(
                "gpu_request_given_up", gpu_request=request_id, job=job_id, reason="its hosts were lost too often"
            )
            runtime.notifier.advance(job_id)
            answered.append(request_id)
    return tuple(answered)


# Of what no row names: its row may be written only after its bytes, and a put takes bytes that are half as old as there.
YOUNG_S = DAY_S
BEHIND_S = 3 * DAY_S  # a pass that was left out now and then is nothing to tell


@dataclass(frozen=True)
class Collected:
    """What was removed, or in a dry run would be."""

    jobs: tuple[str, ...]  # that gave up their artifacts now
    artifacts: int
    artifact_bytes: int
    folders: tuple[Path, ...]
    folder_bytes: int
    kept_bytes: int  # of the artifacts that are left


def collect(runtime: Runtime, *, dry_run: bool = False) -> Collected:
    """Make one pass. Safe to run anywhere, at any time, concurrently with itself; the next pass completes an interrupted one."""
    now = runtime.clock()
    if not dry_run:
        with runtime.database.write() as session:
            retention.move_on(session, now)
    with runtime.database.read() as session:
        counted_to = retention.counted_to(session, now)
    if now - counted_to > BEHIND_S:
        log.warning("ages_behind", behind_s=round(now - counted_to),
                    fix="check the date of this host, and of PostgreSQL's; ages catch up by a day a day")  # fmt: skip
    jobs = _forget_jobs(runtime, counted_to, dry_run=dry_run)
    with runtime.database.read() as session:
        needed = retention.needed(session, jobs)
        # Without any job this is a fresh database, or the wrong one beside somebody's artifacts.
        blind = not retention.knows_jobs(session)
    count = freed = kept = 0
    for digest, size, modified_at, path in runtime.blobs.entries():
        if blind or digest in needed or counted_to - modified_at < YOUNG_S:
            kept += size
        else:
            count, freed = count + 1, freed + size
            if not dry_run:
                runtime.blobs.remove(path, modified_at)
    folders, folder_bytes = remove_leftovers(dry_run=dry_run)
    made = Collected(jobs, count, freed, folders, folder_bytes, kept)
    if not dry_run:
        log.info("collected", jobs=jobs, artifacts=count, artifact_bytes=freed, folders=len(folders),
                 folder_bytes=folder_bytes, kept_bytes=kept)  # fmt: skip
    return made


def _forget_jobs(runtime: Runtime, counted_to: float, *, dry_run: bool) -> tuple[str, ...]:
    before = counted_to - runtime.settings.keep_artifacts_days * DAY_S
    with runtime.database.read() as session:
        expired = retention.expired(session, before)
    if dry_run:
        return expired
    forgotten = []
    for job_id in expired:
        with runtime.database.write() as session:
            if retention.forget(session, job_id, before, runtime.clock()):
                forgotten.append(job_id)
    return tuple(forgotten)
