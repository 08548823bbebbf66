"""A run's lease: how it is kept while work goes on, what is written under it, and how a run is cut short without it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from workers.runtime import Runtime
from workers.store import attempts
from workers.store.attempts import Lease
from workers.store.models import Job, StageAttempt


class Interruption(BaseException):
    """The run ends here; the stage is run again from its start when it can go on."""


class Suspended(Interruption):
    """The stage waits for a GPU request."""

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self.request_id = request_id


class Begun(Interruption):
    """A function run by ``meanwhile`` waits for a GPU request; the stage goes on with something else."""

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self.request_id = request_id


class LeaseLost(Interruption):
    """Another worker has the attempt, or the job was cancelled: nothing of this run may be kept."""


@contextmanager
def leased(runtime: Runtime, lease: Lease) -> Iterator[tuple[Session, Job, StageAttempt]]:
    """Open a transaction with the job, which nobody else can change until it ends, and its attempt.

    Raises:
        LeaseLost: another worker has the attempt, or the job was cancelled.
    """
    with runtime.database.write() as session:
        claimed = attempts.leased(session, lease)
        if claimed is None:
            raise LeaseLost(lease.job_id)
        yield session, *claimed


log = structlog.get_logger(__name__)


@contextmanager
def heartbeat(renew: Callable[[], bool], lease_s: float, label: str) -> Iterator[threading.Event]:
    """Renew a lease three times within its length; the event that it gives is set once the lease was lost."""
    stop, lost = threading.Event(), threading.Event()

    def beat() -> None:
        while not stop.wait(lease_s / 3):
            try:
                if not renew():
                    lost.set()
                    return
            except SQLAlchemyError as error:
                # The next beat may reach the database again, in time.
                log.warning("lease_not_renewed", lease=label, error=str(error))

    thread = threading.Thread(target=beat, name=f"lease {label}", daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        stop.set()
        thread.join(timeout=30)
