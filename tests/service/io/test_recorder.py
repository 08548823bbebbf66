"""The recorder: what comes together is written together, each is told what became of it, and nothing is told too early."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future

import pytest

from service import webhook
from service.webhook import Recorder
from workers.inbox import NewDelivery


class Disk:
    """Keeps deliveries once it is told to go on."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.locked: threading.Event | None = None  # until it is set nobody can begin to write

    def write(self, arrived: Iterable[NewDelivery]) -> tuple[bool, ...]:
        if self.locked is not None:
            self.entered.set()
            assert self.locked.wait(20)
            if self.error is not None:
                raise self.error
        names = [delivery.delivery_id for delivery in arrived]
        self.batches.append(names)
        self.entered.set()
        assert self.go_on.wait(20)
        if self.error is not None:
            raise self.error
        return tuple(name != "known" for name in names)


@pytest.fixture
def disk() -> Disk:
    return Disk()


class Asking:
    """A recorder with the event loop whose tasks ask it; their futures can be waited for in a test's own thread."""

    def __init__(self, write: Callable[[Iterable[NewDelivery]], tuple[bool, ...]]) -> None:
        self.recorder = Recorder(write)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def start(self) -> None:
        self._thread.start()
        self.recorder.start()

    def end(self) -> None:
        assert self.recorder.stop(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    def record(self, item: NewDelivery) -> Future[bool]:
        asked = threading.Event()

        async def wait() -> bool:
            future = self.recorder.record(item)
            asked.set()
            return await future

        found = asyncio.run_coroutine_threadsafe(wait(), self._loop)
        assert asked.wait(20)
        return found

    def settle(self) -> None:
        """Wait until the loop has done what it was asked to."""
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01), self._loop).result(20)


@pytest.fixture
def running(disk: Disk) -> Iterator[Asking]:
    made = Asking(disk.write)
    made.start()
    yield made
    disk.go_on.set()
    made.end()


def delivery(name: str, size: int = 2) -> NewDelivery:
    return NewDelivery(name, "issues", b" " * size)


def first_and_more(disk: Disk, running: Asking, *more: NewDelivery) -> list[Future[bool]]:
    """Have one delivery written, and more come meanwhile."""
    found = [running.record(delivery("first"))]
    assert disk.entered.wait(20)
    return [*found, *(running.record(item) for item in more)]


def test_what_comes_during_a_write_is_written_together_and_told_one_by_one(disk: Disk, running: Asking) -> None:
    asked = first_and_more(disk, running, delivery("a"), delivery("known"), delivery("b"))
    assert not any(future.done() for future in asked), "nothing is told before it is durable"
    disk.go_on.set()
    assert [future.result(20) for future in asked] == [True, True, False, True]
    assert disk.batches == [["first"], ["a", "known", "b"]]


def test_what_comes_while_the_database_is_locked_is_written_together(disk: Disk, running: Asking) -> None:
    disk.locked = threading.Event()
    disk.go_on.set()
    asked = first_and_more(disk, running, delivery("a"), delivery("b"))
    disk.locked.set()
    assert [future.result(20) for future in asked] == [True, True, True]
    assert disk.batches == [["first", "a", "b"]]


def test_a_database_that_stays_locked_is_told_to_all_who_wait(disk: Disk, running: Asking) -> None:
    disk.locked, disk.error = threading.Event(), OSError("locked")
    asked = first_and_more(disk, running, delivery("a"))
    disk.locked.set()
    for future in asked:
        with pytest.raises(OSError, match="locked"):
            future.result(20)
    assert disk.batches == []


def test_a_write_that_fails_is_told_to_all_of_it_and_the_next_one_is_tried(disk: Disk, running: Asking) -> None:
    asked = first_and_more(disk, running, delivery("a"), delivery("b"))
    disk.error = OSError("disk full")
    disk.go_on.set()
    for future in asked:
        with pytest.raises(OSError, match="disk full"):
            future.result(20)
    disk.error = None
    assert running.record(delivery("c")).result(20) is True


def test_what_nobody_waits_for_any_more_is_not_written(disk: Disk, running: Asking) -> None:
    asked = first_and_more(disk, running, delivery("a"), delivery("b"))
    assert asked[1].cancel()
    running.settle()
    disk.go_on.set()
    assert asked[2].result(20) is True
    assert disk.batches == [["first"], ["b"]]


def test_large_deliveries_are_not_all_put_into_one_transaction(
    disk: Disk, running: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "BATCH_BYTES", 100)
    asked = first_and_more(disk, running, *(delivery(name, 60) for name in "abc"), delivery("d", 500))
    disk.go_on.set()
    assert all(future.result(20) for future in asked)
    assert disk.batches == [["first"], ["a"], ["b"], ["c"], ["d"]]


def test_at_the_end_what_waits_is_written(disk: Disk, running: Asking) -> None:
    asked = first_and_more(disk, running, delivery("a"))
    threading.Timer(0.1, disk.go_on.set).start()
    assert running.recorder.stop(20)
    assert [future.result(20) for future in asked] == [True, True]
    assert not running.recorder.is_alive


def test_whoever_handles_deliveries_lets_those_that_come_go_first_but_not_for_ever(
    disk: Disk, running: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.go_on.set()
    monkeypatch.setattr(webhook, "QUIET_S", 60.0)
    monkeypatch.setattr(webhook, "GIVE_WAY_S", 60.0)
    start_s = time.monotonic()
    running.recorder.give_way()
    assert time.monotonic() - start_s < 20.0, "nothing has come"
    monkeypatch.setattr(webhook, "QUIET_S", 0.3)
    running.record(delivery("a"))
    running.recorder.give_way()
    assert time.monotonic() - start_s >= 0.3
    monkeypatch.setattr(webhook, "QUIET_S", 60.0)
    monkeypatch.setattr(webhook, "GIVE_WAY_S", 0.1)
    running.record(delivery("b"))
    start_s = time.monotonic()
    running.recorder.give_way()
    assert 0.1 <= time.monotonic() - start_s < 20.0
