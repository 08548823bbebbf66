"""Keeps a lease while work goes on, and says when it was lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy.exc import SQLAlchemyError

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
