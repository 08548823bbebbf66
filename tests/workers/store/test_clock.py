"""Hosts that share a database date by one clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace

import pytest

from tests.workers.store.servers import Postgres
from workers.store import clock
from workers.store.clock import AGAIN_S, KEPT_S, DatabaseClock
from workers.store.database import Database

HOUR_S = 3600.0


@pytest.fixture
def this_hosts_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Put the clock of this host forward, from then on."""

    def put(ahead_s: float, later_s: float = 0.0) -> None:
        own = SimpleNamespace(time=lambda: time.time() + ahead_s, monotonic=lambda: time.monotonic() + later_s)
        monkeypatch.setattr(clock, "time", own)

    return put


def test_hosts_whose_clocks_differ_go_by_that_of_postgresql(
    postgres_server: Postgres, this_hosts_clock: Callable[[float], None]
) -> None:
    database = Database(postgres_server.empty_database().replace("postgresql://", "postgresql+psycopg://", 1))
    this_hosts_clock(5 * HOUR_S)
    ahead = DatabaseClock(database)
    assert abs(ahead() - time.time()) < 1.0
    this_hosts_clock(-9 * HOUR_S)
    assert abs(DatabaseClock(database)() - ahead()) < 1.0
    database.dispose()


def test_sqlite_has_the_clock_of_its_host(this_hosts_clock: Callable[[float], None]) -> None:
    now = DatabaseClock(Database("sqlite://"))
    this_hosts_clock(HOUR_S)
    assert abs(now() - time.time() - HOUR_S) < 1.0


def test_a_database_that_does_not_answer_leaves_the_time_that_was_known(
    postgres_server: Postgres, this_hosts_clock: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(postgres_server.empty_database().replace("postgresql://", "postgresql+psycopg://", 1))
    now = DatabaseClock(database)
    now()
    gone = Database("postgresql+psycopg://nobody@127.0.0.1:9/nothing")
    monkeypatch.setattr(now, "_database", gone)
    this_hosts_clock(HOUR_S, later_s=2 * KEPT_S)
    assert abs(now() - time.time() - 2 * KEPT_S) < 1.0
    assert abs(DatabaseClock(gone)() - time.time() - HOUR_S) < 1.0, "nothing was ever known"
    database.dispose()


def test_a_database_that_comes_up_is_asked_at_once(
    postgres_server: Postgres, this_hosts_clock: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = DatabaseClock(Database("postgresql+psycopg://nobody@127.0.0.1:9/nothing"))
    this_hosts_clock(HOUR_S)
    now()
    there = Database(postgres_server.empty_database().replace("postgresql://", "postgresql+psycopg://", 1))
    monkeypatch.setattr(now, "_database", there)
    this_hosts_clock(HOUR_S, later_s=AGAIN_S + 0.1)
    assert abs(now() - time.time()) < 2.0
    there.dispose()


def test_threads_that_start_together_all_go_by_the_first_answer(
    this_hosts_clock: Callable[[float], None],
) -> None:
    server = SlowServer()
    now = DatabaseClock(server)  # type: ignore[arg-type]
    this_hosts_clock(24 * HOUR_S)
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(now) for _ in range(4)]
        server.answers.set()
        times = [future.result() for future in asked]
    assert max(abs(seconds - time.time()) for seconds in times) < 2.0
    assert server.asked == 1


class SlowServer:
    """Stands in for a database of PostgreSQL's that answers late."""

    is_sqlite = False

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.asked = 0
        self.engine = self

    def connect(self) -> AbstractContextManager[SlowServer]:
        return nullcontext(self)

    def scalar(self, _statement: object) -> float:
        self.asked += 1
        self.answers.wait(5)
        time.sleep(0.2)
        return time.time()
