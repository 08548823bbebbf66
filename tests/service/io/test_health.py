"""Health: what is broken is named with the fix, what is late is waited for, and what lives says so whatever hangs."""

from __future__ import annotations

import errno
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from service import deliveries, health, loops
from service.github.errors import TransientError, UnauthorizedError
from service.health import Health, health_router
from service.loops import Loop, Wake
from service.metrics import WEBHOOKS
from service.publisher import publisher
from tests.service.io.conftest import CREATE, Bench
from workers import embedded, runtime

Ask = Callable[[], tuple[bool, str]]


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "ANSWER_S", 0.2)


@contextmanager
def asked(**needed: Ask) -> Iterator[Callable[[], tuple[int, dict[str, Any]]]]:
    app = FastAPI()
    app.include_router(health_router(Health(needed, {}, dict, dict)))
    with TestClient(app) as client:

        def ready() -> tuple[int, dict[str, Any]]:
            answer = client.get("/readyz")
            return answer.status_code, answer.json()

        yield ready


class Switch:
    """A check whose answer a test sets."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.go_on = threading.Event()
        self.go_on.set()
        self.count = 0

    def __call__(self) -> tuple[bool, str]:
        self.count += 1
        assert self.go_on.wait(20)
        if self.error is not None:
            raise self.error
        return True, "fine"


@pytest.mark.parametrize(
    ("error", "detail", "fix"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/secret/path"), "the disk is full", "free space"),
        (OSError(errno.EROFS, "Read-only file system"), "it cannot be written to", "read-only"),
        (OSError("no socket"), "OSError", "KERNELSMITH_ARTIFACTS_URL"),
        (KeyError("a fault of ours"), "KeyError", "KERNELSMITH_ARTIFACTS_URL"),
    ],
    ids=["full", "read-only", "unknown", "fault"],
)
def test_what_is_broken_is_not_ready_at_once_and_has_its_fix_there_and_in_the_log(
    error: Exception, detail: str, fix: str
) -> None:
    switch = Switch()
    with asked(artifacts=switch, database=lambda: (True, "fine")) as ready:
        assert ready()[0] == 200
        switch.error = error
        with capture_logs() as logs:
            status, body = ready()
        assert (status, body["database"]["ok"], body["artifacts"]["ok"]) == (503, True, False)
        assert body["artifacts"]["detail"] == detail
        assert fix in body["artifacts"]["fix"]
        assert [(line["event"], line["check"], line["fix"]) for line in logs] == [
            ("check_failed", "artifacts", body["artifacts"]["fix"])
        ]
        switch.error = None
        assert ready()[0] == 200


def sqlite_busy() -> Exception:
    cause = sqlite3.OperationalError("database is locked")
    cause.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return OperationalError("BEGIN", {}, cause)


@pytest.mark.parametrize("error", [TimeoutError("no answer in 5 s"), sqlite_busy()], ids=["timeout", "locked"])
def test_what_is_late_was_well_a_moment_ago_and_is_ready_until_its_time_is_over(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = Switch()
    with asked(database=switch) as ready:
        switch.error = error
        assert ready()[0] == 503, "nobody has ever seen it well"
        switch.error = None
        assert ready()[0] == 200
        switch.error = error
        with capture_logs() as logs:
            status, body = ready()
        assert (status, body["database"]["ok"]) == (200, True)
        assert "all was well 0 s ago" in body["database"]["detail"]
        assert [(line["event"], line["ready"]) for line in logs] == [("check_late", True)]
        monkeypatch.setattr(health, "PATIENCE_S", 0.0)
        status, body = ready()
        assert (status, body["database"]["fix"]) == (503, health.FIXES["database"])


def test_what_was_broken_is_not_well_again_because_it_is_late() -> None:
    switch = Switch()
    with asked(redis=switch) as ready:
        assert ready()[0] == 200
        for error in (ConnectionError("refused"), TimeoutError("no answer")):
            switch.error = error
            assert ready()[0] == 503


def test_a_check_that_hangs_is_answered_in_time_and_asked_once() -> None:
    switch = Switch()
    with asked(github=switch, database=lambda: (True, "fine")) as ready:
        switch.go_on.clear()
        for _ in range(5):
            start_s = time.monotonic()
            status, body = ready()
            assert time.monotonic() - start_s < 5.0
            assert (status, body["database"]["ok"], body["github"]["ok"]) == (503, True, False)
        assert switch.count == 1
        switch.go_on.set()
        time.sleep(0.1)
        assert ready()[0] == 200


def test_the_process_says_that_it_lives_while_every_thread_waits_for_the_database() -> None:
    go_on, app = threading.Event(), FastAPI()
    app.add_api_route("/hangs", lambda: bool(go_on.wait(20)))
    app.include_router(health_router(Health({"database": lambda: (True, "fine")}, {}, dict, dict)))
    with TestClient(app) as client:
        # Pages share a pool of 40 threads.
        threads = [threading.Thread(target=client.get, args=("/hangs",)) for _ in range(60)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        start_s = time.monotonic()
        assert client.get("/livez").status_code == 200
        assert "database" in client.get("/readyz").json()
        assert time.monotonic() - start_s < 5.0
        go_on.set()
        for thread in threads:
            thread.join(20)


def test_a_database_that_is_locked_keeps_neither_livez_nor_readyz_waiting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "ANSWER_S", 2.0)
    assert bench.client.get("/readyz").status_code == 200
    with closing(sqlite3.connect(embedded.settings().data_dir / "kernelsmith.sqlite3")) as other:
        other.execute("BEGIN IMMEDIATE")
        start_s = time.monotonic()
        assert bench.client.get("/livez").status_code == 200
        answer = bench.client.get("/readyz")
        assert time.monotonic() - start_s < 10.0
        assert "no answer in" in answer.json()["database"]["detail"]
        other.rollback()
    time.sleep(0.3)
    assert bench.client.get("/readyz").json()["database"]["detail"] == "sqlite, written to"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TransientError("no answer from GitHub: ConnectTimeout"), 200),
        (TransientError("GitHub answered 502", 502), 200),
        (UnauthorizedError("GitHub answered 401", 401), 503),
    ],
    ids=str,
)
def test_an_outage_of_github_is_waited_for_and_wrong_credentials_are_not(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    monkeypatch.setattr(health, "ANSWER_S", 20.0)
    assert bench.client.get("/readyz").status_code == 200
    clients = bench.parts.clients
    monkeypatch.setattr(clients, "_checked", None)

    def refuse() -> str:
        raise error

    with monkeypatch.context() as changed:
        changed.setattr(clients._credentials, "login", refuse)
        assert bench.client.get("/readyz").status_code == status
    # An outage that is over is seen at once.
    if status == 200:
        assert bench.client.get("/readyz").json()["github"]["detail"] == "signed in as smith[bot]"


def test_a_full_disk_is_told_by_the_webhook_readyz_the_counter_and_the_log_and_is_over_once_there_is_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "ANSWER_S", 20.0)
    engine = runtime.current().database.engine
    pages = [1]  # SQLite takes as many as there are at least

    def limit(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count={pages[0]}")

    event.listen(engine, "checkout", limit)
    bench.say(bench.issue(), "x" * 60_000)
    before = WEBHOOKS.labels(status="503")._value.get()
    with capture_logs() as logs:
        bench.hub.deliver_all()
        answer = bench.client.get("/readyz")
    assert WEBHOOKS.labels(status="503")._value.get() > before
    assert (answer.status_code, answer.json()["database"]["detail"]) == (503, "the disk is full")
    told = {line["event"]: line for line in logs if line["log_level"] == "error"}
    assert {"delivery_not_kept", "check_failed"} <= set(told)
    assert all("free space" in told[name]["fix"] for name in ("delivery_not_kept", "check_failed"))
    assert not any("exc_info" in line for line in logs)
    pages[0] = 1_000_000
    assert bench.client.get("/readyz").status_code == 200


def test_a_thread_that_meets_a_full_disk_says_the_fix_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "FAULT_PAUSE_S", 0.01)
    again = threading.Event()

    def step() -> bool:
        if step_calls.append(1) or len(step_calls) > 1:
            again.set()
            return False
        raise OSError(errno.ENOSPC, "No space left on device")

    step_calls: list[int] = []
    with capture_logs() as logs:
        loop = Loop("publisher-0", step, Wake(), poll_s=60)
        loop.start()
        assert again.wait(20)
        loop.stop()
        assert loop.join(20)
    (line,) = logs
    assert (line["event"], line["loop"], line["error"]) == ("store_unusable", "publisher-0", "the disk is full")
    assert "exc_info" not in line


@pytest.mark.parametrize("part", ["delivery", "update"])
def test_what_cannot_be_done_on_a_full_disk_is_put_off_as_often_as_it_takes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    number = bench.issue()
    bench.say(number, CREATE)
    if part == "update":
        bench.handle()
    target = (deliveries, "handle") if part == "delivery" else (publisher, "publish")
    with monkeypatch.context() as changed, capture_logs() as logs:
        changed.setattr(*target, full)
        for _ in range(8):  # more often than a fault of the bot's own is tried
            bench.settle()
            bench.later(700)
    assert sum(line["event"] == "store_unusable" for line in logs) >= 8
    assert not any(line["event"] in ("delivery_given_up", "publish_given_up", "delivery_fault") for line in logs)
    bench.persist()
    assert bench.job().pull_number is not None
