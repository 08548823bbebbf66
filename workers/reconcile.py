"""Finds what was accepted and not carried on, and carries it on. May run anywhere, at any time, side by side with itself."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from workers.runtime import Runtime
from workers.store import leases, pending

DAY_S = 86_400.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Reconciled:
    """What one pass found."""

    jobs: tuple[str, ...]  # told again that they can go on
    gpu_requests: tuple[str, ...]  # offered again
    deliveries: int  # leases of lost workers that were taken back
    updates: int

    def __bool__(self) -> bool:
        return bool(self.jobs or self.gpu_requests or self.deliveries or self.updates)


def reconcile(runtime: Runtime) -> Reconciled:
    """Make one pass and say what it found."""
    now = runtime.clock()
    since = now - runtime.settings.renotify_after_s
    with runtime.database.write() as session:
        jobs = pending.unheard_jobs(session, now, since)
        requests = pending.unheard_gpu_requests(session, now, since)
        freed = leases.free_expired(session, now)
        leases.forget_deliveries(session, now - runtime.settings.keep_deliveries_days * DAY_S)
    for job_id in jobs:
        runtime.notifier.advance(job_id)
    for request_id, architecture in requests:
        runtime.notifier.gpu(request_id, architecture)
    found = Reconciled(jobs, tuple(request_id for request_id, _ in requests), freed.deliveries, freed.updates)
    if found:
        log.warning("reconciled", jobs=found.jobs, gpu_requests=found.gpu_requests, deliveries=found.deliveries,
                    updates=found.updates)  # fmt: skip
    return found
