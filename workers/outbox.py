"""A door: updates to be published, in order within a job, each under a lease until it is completed."""

from __future__ import annotations

from collections.abc import Collection

from workers.contracts import ClaimedUpdate, Effect, Failure
from workers.runtime import current
from workers.store import publishing

__all__ = ["claim", "complete", "give_up", "postpone"]


def claim(
    worker: str, lease_s: float, only: str | None = None, *, under_way: Collection[str] = ()
) -> ClaimedUpdate | None:
    """Take the oldest update that can be published now; within a job the next one waits until the last is done.

    With ``only``, a job's id, the updates of other jobs are left to those who publish them. ``under_way`` are
    updates that are not taken although their lease may be over.
    """
    runtime = current()
    while True:
        now = runtime.clock()
        with runtime.database.read() as session:
            row_id = publishing.first(session, now, only, under_way)
        if row_id is None:
            return None
        with runtime.database.write() as session:
            claimed = publishing.claim(session, row_id, worker, now, lease_s)
        if claimed is not None:
            return claimed


def complete(update_id: str, worker: str, effect: Effect) -> bool:
    """Keep what publishing did, and let the job's next update follow; False where the lease was lost."""
    runtime = current()
    with runtime.database.write() as session:
        return publishing.complete(session, update_id, worker, effect, runtime.clock())


def postpone(update_id: str, worker: str, error: str, retry_after_s: float, *, refused: bool) -> bool:
    """Postpone an update that was refused or met an outage; False where the lease was lost."""
    runtime = current()
    with runtime.database.write() as session:
        not_before = runtime.clock() + retry_after_s
        return publishing.postpone(session, update_id, worker, error, not_before, refused=refused)


def give_up(update_id: str, worker: str, failure: Failure) -> bool:
    """Fail the job because an update cannot be published; a report follows unless that is what failed."""
    runtime = current()
    with runtime.database.write() as session:
        return publishing.give_up(session, update_id, worker, failure, runtime.clock())
