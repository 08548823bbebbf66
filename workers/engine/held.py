"""A transaction under a run's lease: what it writes is kept only while the lease is held and the job runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from workers.engine.interruptions import LeaseLost
from workers.runtime import Runtime
from workers.store import attempts
from workers.store.attempts import Lease
from workers.store.models import Job, StageAttempt


@contextmanager
def held(runtime: Runtime, lease: Lease) -> Iterator[tuple[Session, Job, StageAttempt]]:
    """Open a transaction with the job, which nobody else can change until it ends, and its attempt.

    Raises:
        LeaseLost: another worker has the attempt, or the job was cancelled.
    """
    with runtime.database.write() as session:
        found = attempts.held(session, lease)
        if found is None:
            raise LeaseLost(lease.job_id)
        yield session, *found
