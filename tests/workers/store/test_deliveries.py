from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.orm import Session

from tests.workers.store.worlds import World, record
from workers import embedded, inbox
from workers.store import database, deliveries
from workers.store.trouble import LOCKED


def test_delivery_is_kept_once(world: World) -> None:
    assert record("d1", "issue_comment", b"{}") is True
    assert record("d1", "issue_comment", b"{}") is False
    assert inbox.counts()["deliveries"] == {"pending": 1}


def test_delivery_redelivered_to_many_processes_at_once_is_kept_once(world: World) -> None:
    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(lambda _: record("d1", "push", b"\x00\xff"), range(16)))
    assert kept.count(True) == 1


def test_deliveries_are_handled_in_order_of_arrival(world: World) -> None:
    for name in ("b", "a", "c"):
        record(name, "issues", name.encode())
    claimed = [inbox.claim_delivery("w", 30) for _ in range(4)]
    assert [(c.delivery_id, c.event, c.payload, c.tries) for c in claimed if c] == [
        ("b", "issues", b"b", 1),
        ("a", "issues", b"a", 1),
        ("c", "issues", b"c", 1),
    ]


def test_delivery_is_handled_by_one_of_many_workers(world: World) -> None:
    for number in range(10):
        record(f"d{number}", "issues", b"")
    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(lambda n: inbox.claim_delivery(f"w{n}", 30), range(20)))
    assert sorted(c.delivery_id for c in claimed if c) == [f"d{n}" for n in range(10)]


def test_delivery_of_a_lost_worker_is_handled_again(world: World) -> None:
    record("d1", "issues", b"")
    inbox.claim_delivery("lost", 30)
    assert inbox.claim_delivery("w", 30) is None
    world.clock.advance(31)
    again = inbox.claim_delivery("w", 30)
    assert again is not None
    assert again.tries == 2


def test_finished_delivery_is_not_handled_again(world: World) -> None:
    record("d1", "issues", b"")
    inbox.claim_delivery("w", 30)
    assert inbox.finish_delivery("d1", "one job") is True
    assert inbox.finish_delivery("d1", "one job") is False
    world.clock.advance(1000)
    assert inbox.claim_delivery("w", 30) is None


def test_released_delivery_waits_for_its_time(world: World) -> None:
    record("d1", "issues", b"")
    record("d2", "issues", b"")
    inbox.claim_delivery("w", 30)
    assert inbox.release_delivery("d1", 1, "GitHub answered 502", world.clock.now + 60, refused=False)
    second = inbox.claim_delivery("w", 300)
    assert second is not None
    assert second.delivery_id == "d2"
    assert inbox.claim_delivery("w", 30) is None
    world.clock.advance(61)
    first = inbox.claim_delivery("w", 30)
    assert first is not None
    assert (first.delivery_id, first.tries) == ("d1", 2)


@pytest.mark.parametrize("second", ["other", "w"], ids=["another worker", "the same one again"])
def test_a_claim_that_was_lost_changes_nothing_of_the_one_that_followed(world: World, second: str) -> None:
    record("d1", "issues", b"")
    first = inbox.claim_delivery("w", 30)
    world.clock.advance(31)
    following = inbox.claim_delivery(second, 30)
    assert first is not None and following is not None
    assert inbox.release_delivery("d1", first.tries, "GitHub answered 502", world.clock.now, refused=False) is False
    assert inbox.claim_delivery("third", 30) is None
    assert inbox.give_up_delivery("d1", first.tries, "error: GitHub answered 502") is False
    assert inbox.counts()["deliveries"] == {"pending": 1}
    assert inbox.release_delivery("d1", following.tries, "GitHub answered 502", world.clock.now, refused=False) is True


def test_a_claim_whose_lease_ran_out_is_its_workers_until_another_one_takes_it(world: World) -> None:
    record("d1", "issues", b"")
    first = inbox.claim_delivery("w", 30)
    world.clock.advance(31)
    embedded.reconcile()
    assert first is not None
    assert inbox.release_delivery("d1", first.tries, "GitHub answered 502", world.clock.now + 60, refused=False) is True
    assert inbox.claim_delivery("w", 30) is None


def test_what_was_handled_is_handled_whoever_has_it_by_now(world: World) -> None:
    record("d1", "issues", b"")
    inbox.claim_delivery("slow", 30)
    world.clock.advance(31)
    following = inbox.claim_delivery("w", 30)
    assert inbox.finish_delivery("d1", "one job") is True
    assert following is not None
    assert inbox.release_delivery("d1", following.tries, "GitHub answered 502", world.clock.now, refused=False) is False
    assert inbox.give_up_delivery("d1", following.tries, "error") is False
    assert inbox.counts()["deliveries"] == {"done": 1}


def test_a_delivery_is_given_up_by_the_claim_that_has_it(world: World) -> None:
    record("d1", "issues", b"")
    claimed = inbox.claim_delivery("w", 30)
    assert claimed is not None
    assert inbox.give_up_delivery("d1", claimed.tries, "error: it broke") is True
    world.clock.advance(1000)
    assert inbox.claim_delivery("w", 30) is None


Keep = Callable[[Iterable[inbox.NewDelivery]], tuple[bool, ...]]


@pytest.fixture(params=["one transaction", "a log"])
def keep(request: pytest.FixtureRequest) -> Iterator[Keep]:
    """Both ways in which deliveries are kept."""
    if request.param == "one transaction":
        yield inbox.record_deliveries
        return
    log = inbox.DeliveryLog()
    yield log.record
    log.close()


def test_many_deliveries_at_once_are_each_told_whether_they_are_new(world: World, keep: Keep) -> None:
    batch = [inbox.NewDelivery(name, "push", name.encode()) for name in ("a", "b", "a", "c")]
    assert keep(batch) == (True, True, False, True)
    assert keep([*batch, inbox.NewDelivery("d", "push", b"\x00\xff")]) == (
        False,
        False,
        False,
        False,
        True,
    )
    assert inbox.counts()["deliveries"] == {"pending": 4}
    assert [claimed.payload for _ in range(4) if (claimed := inbox.claim_delivery("w", 30))] == [
        b"a",
        b"b",
        b"c",
        b"\x00\xff",
    ]


def test_what_asks_for_nothing_is_kept_as_handled(world: World, keep: Keep) -> None:
    asks_nothing = inbox.NewDelivery("a", "issue_comment", b"{}", "no command")
    assert keep([asks_nothing, inbox.NewDelivery("b", "issue_comment", b"{}")]) == (True, True)
    assert inbox.counts()["deliveries"] == {"done": 1, "pending": 1}
    claimed = inbox.claim_delivery("w", 30)
    assert claimed is not None
    assert claimed.delivery_id == "b"
    assert inbox.claim_delivery("w", 30) is None
    assert keep([asks_nothing]) == (False,)


def test_deliveries_are_read_once_the_transaction_has_begun(local: World, keep: Keep) -> None:
    seen = []

    def arrive() -> Iterator[inbox.NewDelivery]:
        # Whoever writes now waits for this transaction to end.
        seen.append(local.runtime.database._turn.acquire(blocking=False))
        yield inbox.NewDelivery("a", "push", b"{}")

    assert keep(arrive()) == (True,)
    assert seen == [False]


def test_a_log_goes_on_after_an_error_and_nothing_of_that_transaction_is_kept(world: World) -> None:
    def arrive() -> Iterator[inbox.NewDelivery]:
        yield inbox.NewDelivery("a", "push", b"{}")
        raise OSError("gone")

    with contextlib.closing(inbox.DeliveryLog()) as log:
        with pytest.raises(OSError, match="gone"):
            log.record(arrive())
        assert log.record([inbox.NewDelivery("a", "push", b"{}")]) == (True,)
    assert inbox.counts()["deliveries"] == {"pending": 1}


def test_a_log_waits_for_another_writer_and_says_in_the_end_that_it_is_locked(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 200)
    other = sqlite3.connect(local.runtime.database.url.removeprefix("sqlite:///"), isolation_level=None)
    with contextlib.closing(other), contextlib.closing(inbox.DeliveryLog()) as log:
        assert log.record([inbox.NewDelivery("a", "push", b"{}")]) == (True,)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as caught:
            log.record([inbox.NewDelivery("b", "push", b"{}")])
        assert inbox.trouble_of(caught.value) == LOCKED
        other.execute("ROLLBACK")
        assert log.record([inbox.NewDelivery("b", "push", b"{}")]) == (True,)


def test_a_rehearsed_delivery_is_seen_by_nobody(world: World) -> None:
    assert inbox.rehearse_delivery() in {"sqlite", "postgresql"}
    assert inbox.counts()["deliveries"] == {}
    assert inbox.claim_delivery("w", 30) is None


def test_a_rehearsal_takes_the_room_that_a_comment_takes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bytes] = []

    def keep(session: Session, arrived: Iterable[inbox.NewDelivery], now: float) -> tuple[bool, ...]:
        (rehearsed,) = arrived
        kept.append(rehearsed.payload)
        return real(session, (rehearsed,), now)

    real = deliveries.keep
    monkeypatch.setattr(deliveries, "keep", keep)
    inbox.rehearse_delivery()
    (payload,) = kept
    assert len(zlib.compress(payload)) >= len(payload) >= 64 << 10


def test_threads_of_one_process_write_in_turn_and_do_not_sleep_for_each_other(local: World) -> None:
    database = local.runtime.database
    with database.write():
        waits_s: list[float] = []

        def write() -> None:
            with database.write():
                waits_s.append(time.monotonic())

        thread = threading.Thread(target=write)
        thread.start()
        time.sleep(0.3)  # long enough for SQLite's own wait to have come to steps of 50 ms
    freed_s = time.monotonic()
    thread.join(20)
    assert waits_s[0] - freed_s < 0.02


DAY_S = 86_400.0


def test_a_delivery_put_back_by_a_clock_that_was_a_day_ahead_waits_no_day(world: World) -> None:
    record("d1", "issues", b"")
    record("d2", "issues", b"")
    world.clock.advance(DAY_S)
    first, second = inbox.claim_delivery("w", 180), inbox.claim_delivery("lost", 3600)
    assert first is not None and second is not None
    assert inbox.release_delivery("d1", first.tries, "GitHub answered 502", world.clock.now + 3600, refused=False)
    assert inbox.claim_delivery("w", 30) is None
    world.clock.advance(-DAY_S)
    assert [claimed.delivery_id for _ in range(3) if (claimed := inbox.claim_delivery("w", 30))] == ["d1", "d2"]


@pytest.mark.parametrize("wait_s", [1.0, 600.0, 3600.0])
def test_the_longest_pause_is_waited_for(world: World, wait_s: float) -> None:
    record("d1", "issues", b"")
    first = inbox.claim_delivery("w", 30)
    assert first is not None
    assert inbox.release_delivery("d1", first.tries, "GitHub answered 502", world.clock.now + wait_s, refused=False)
    world.clock.advance(wait_s - 0.5)
    assert inbox.claim_delivery("w", 30) is None
    world.clock.advance(0.5)
    assert inbox.claim_delivery("w", 30) is not None


def test_a_lease_of_a_clock_that_was_a_day_ahead_is_taken_back(world: World) -> None:
    record("d1", "issues", b"")
    world.clock.advance(DAY_S)
    inbox.claim_delivery("lost", 180)
    world.clock.advance(-DAY_S)
    assert embedded.reconcile().deliveries == 1
