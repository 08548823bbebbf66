"""The time of day by which an installation dates what it keeps: of its PostgreSQL server, for its hosts' clocks may differ."""

from __future__ import annotations

import threading
import time

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from workers.store.database import Database

KEPT_S = 60.0


class DatabaseClock:
    """Unix time. With SQLite, whose processes share a host, it is that host's own; and so it is until PostgreSQL answers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._ask_at_s = -1.0
        self._start_s: float | None = None  # the server's Unix time when the monotonic clock was zero

    def __call__(self) -> float:
        """The time now, to about a millisecond."""
        if not self._database.is_sqlite and self._is_due():
            self._ask()
        return time.time() if self._start_s is None else self._start_s + time.monotonic()

    def _is_due(self) -> bool:
        # One thread asks, and others, which may be in a transaction, go by what was known until it is answered.
        with self._lock:
            due = time.monotonic() >= self._ask_at_s
            if due:
                self._ask_at_s = time.monotonic() + KEPT_S
            return due

    def _ask(self) -> None:
        # Whoever goes on to use the database meets its trouble there.
        try:
            with self._database.engine.connect() as connection:
                seconds = connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())::double precision"))
        except SQLAlchemyError:
            return
        if seconds is not None:
            self._start_s = float(seconds) - time.monotonic()
