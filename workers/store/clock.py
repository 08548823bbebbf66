"""The time of day by which an installation dates what it keeps: of its PostgreSQL server, for its hosts' clocks may differ."""

from __future__ import annotations

import threading
import time

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from workers.store.database import Database

KEPT_S = 60.0
AGAIN_S = 1.0


class DatabaseClock:
    """Unix time. With SQLite, whose processes share a host, it is that host's own; and so it is until PostgreSQL answers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._guard = threading.Lock()
        self._first = threading.Lock()
        self._ask_at_s = -1.0
        self._start_s: float | None = None  # the server's Unix time when the monotonic clock was zero

    def __call__(self) -> float:
        """The time now, to about a millisecond."""
        if not self._database.is_sqlite:
            if self._start_s is None:
                # Nobody goes by this host's clock while another thread asks for the first time: it may be a day off.
                with self._first:
                    self._ask_if_due()
            else:
                self._ask_if_due()
        return time.time() if self._start_s is None else self._start_s + time.monotonic()

    def _ask_if_due(self) -> None:
        # One thread asks, and others, which may be in a transaction, go by what was known until it is answered.
        with self._guard:
            if time.monotonic() < self._ask_at_s:
                return
            self._ask_at_s = time.monotonic() + KEPT_S
        # Whoever goes on to use the database meets its trouble there.
        try:
            with self._database.engine.connect() as connection:
                seconds = connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())::double precision"))
        except SQLAlchemyError:
            self._ask_at_s = time.monotonic() + AGAIN_S
            return
        if seconds is not None:
            self._start_s = float(seconds) - time.monotonic()
