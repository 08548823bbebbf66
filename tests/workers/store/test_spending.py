from __future__ import annotations

import threading

import pytest
from sqlalchemy import select

from tests.workers.engine.fakes import request
from tests.workers.store.worlds import World
from workers import inbox
from workers.contracts import ModelAmount, ModelRequests, ModelUse
from workers.models.ledger import Amount, Budget, BudgetScope, BudgetUnit
from workers.models.protocol import Usage
from workers.store import attempts, jobs, spending
from workers.store.attempts import Lease
from workers.store.models import LedgerEntry
from workers.store.spending import SpendRequest, Spent

LIMIT = Budget(BudgetScope.repository, BudgetUnit.tokens, 100, "SETTING")
WANTED = SpendRequest("key", "generate", "scripted", "model-1", Amount(40, 20, 7))


class NoRoomError(Exception):
    """A budget has less left than a request can take."""


def leased(world: World, key: str) -> Lease:
    job_id = inbox.submit(request(key)).job_id
    with world.runtime.database.write() as session:
        job = jobs.locked(session, job_id)
        assert job is not None
        row = attempts.claim(session, job, "token", world.clock(), 60)
        assert row is not None
        return Lease(job_id, row.id, row.lease_token or "")


def reserve(
    world: World, lease: Lease, entered: threading.Event | None = None, go: threading.Event | None = None
) -> str:
    with world.runtime.database.write() as session:
        found = attempts.leased(session, lease)
        assert found is not None
        (room,) = spending.rooms(session, found[0], (LIMIT,), world.clock())
        if room.left() < 60:
            raise NoRoomError(f"{room.used} used, {room.promised} promised")
        request_id = spending.promise(session, *found, WANTED, world.clock())
        if entered is not None and go is not None:
            entered.set()
            assert go.wait(20)
        return request_id


def settle(world: World, spent: Spent) -> bool:
    with world.runtime.database.write() as session:
        return spending.settle(session, spent, world.clock())


def test_second_one_waits_for_the_first_one_s_promise_to_be_seen(world: World) -> None:
    first, second = leased(world, "comment/1"), leased(world, "comment/2")
    entered, go, ended = threading.Event(), threading.Event(), threading.Event()
    refused: list[str] = []

    def late() -> None:
        try:
            reserve(world, second)
        except NoRoomError as error:
            refused.append(str(error))
        ended.set()

    threads = [threading.Thread(target=reserve, args=(world, first, entered, go)), threading.Thread(target=late)]
    threads[0].start()
    assert entered.wait(20)
    threads[1].start()
    assert not ended.wait(0.5)
    go.set()
    for thread in threads:
        thread.join(20)
    assert refused == ["0 used, 60 promised"]


def test_request_is_settled_once(world: World) -> None:
    request_id = reserve(world, leased(world, "comment/1"))
    spent = Spent(request_id, "answered", Usage(input_tokens=5), 2, 1.5)
    assert [settle(world, spent), settle(world, spent)] == [True, False]
    with world.runtime.database.read() as session:
        rows = session.scalars(select(LedgerEntry).order_by(LedgerEntry.id)).all()
        found = [(row.key, row.unit, row.amount, row.provider, row.model, row.person) for row in rows]
    assert found == [
        (f"model/{request_id}/input_tokens", "input_tokens", 5, "scripted", "model-1", "mona"),
        (f"model/{request_id}/micro_dollars", "micro_dollars", 2, "scripted", "model-1", "mona"),
    ]


def test_lost_request_is_charged_at_its_most_and_what_comes_late_changes_nothing(world: World) -> None:
    lease = leased(world, "comment/1")
    request_id = reserve(world, lease)
    world.clock.advance(61)
    with world.runtime.database.write() as session:
        # The lease has run out but nobody has taken it: its worker may still come in time.
        assert spending.give_up_lost(session, world.clock()) == 0
        job = jobs.locked(session, lease.job_id)
        assert job is not None
        assert attempts.claim(session, job, "another", world.clock(), 60) is not None
        assert spending.give_up_lost(session, world.clock()) == 1
    assert settle(world, Spent(request_id, "answered", Usage(input_tokens=5), 2, 1.5)) is False
    assert inbox.model_use() == ModelUse(
        (ModelRequests("scripted", "generate", "lost", 1, 0.0),),
        (
            ModelAmount("scripted", "model-1", "input_tokens", 40),
            ModelAmount("scripted", "model-1", "micro_dollars", 7),
            ModelAmount("scripted", "model-1", "output_tokens", 20),
        ),
    )


def test_use_is_summed_by_how_requests_ended(world: World) -> None:
    lease = leased(world, "comment/1")
    for outcome, took in (("answered", 5), ("answered", 6), ("overloaded", 0)):
        settle(world, Spent(reserve(world, lease), outcome, Usage(cache_read_tokens=took), None, 1.5))
    reserve(world, lease)
    assert inbox.model_use() == ModelUse(
        (
            ModelRequests("scripted", "generate", "answered", 2, 3.0),
            ModelRequests("scripted", "generate", "overloaded", 1, 1.5),
        ),
        (ModelAmount("scripted", "model-1", "cache_read_tokens", 11),),
    )


def test_what_is_not_a_model_s_is_no_part_of_a_budget(world: World) -> None:
    lease = leased(world, "comment/1")
    owner = {"job_id": lease.job_id, "repository": "acme/kernels", "person": "mona", "at": world.clock()}
    with world.runtime.database.write() as session:
        session.add(LedgerEntry(key="gpu/1", unit="gpu_seconds", amount=5000, **owner))
    assert reserve(world, lease)
    assert inbox.model_use().amounts == ()


def test_names_that_are_too_long_for_the_tables_are_cut(world: World) -> None:
    lease = leased(world, "comment/1")
    with world.runtime.database.write() as session:
        found = attempts.leased(session, lease)
        assert found is not None
        wanted = SpendRequest("key", "p" * 300, "n" * 300, "m" * 300, Amount(1, 1, None))
        request_id = spending.promise(session, *found, wanted, world.clock())
    assert settle(world, Spent(request_id, "answered", Usage(output_tokens=1), None, 0.1))


@pytest.mark.parametrize("used", [39, 41])
def test_budget_has_room_for_what_just_fits(world: World, used: int) -> None:
    lease = leased(world, "comment/1")
    settle(world, Spent(reserve(world, lease), "answered", Usage(output_tokens=used), None, 0.1))
    if used + 60 <= LIMIT.limit:
        assert reserve(world, lease)
    else:
        with pytest.raises(NoRoomError):
            reserve(world, lease)
