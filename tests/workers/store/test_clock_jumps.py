"""A clock that jumps a day, or a year, while a job runs, and back: what is counted by time stays what it was."""

from __future__ import annotations

import pytest

from tests.workers.engine.fakes import request
from tests.workers.store.worlds import World
from workers import inbox
from workers.engine.advance import advance
from workers.gpu_host.supervise import serve
from workers.models.ledger import Budget, BudgetScope, BudgetUnit
from workers.store import gpu_work, jobs, spending
from workers.store.models import LedgerEntry
from workers.upkeep import reconcile

DAY_S = 86_400.0
REPOSITORY = "acme/kernels"


def begin(world: World, key: str = "comment/1") -> str:
    """Begin a job, up to its first request to a GPU host."""
    job_id = inbox.submit(request(key)).job_id
    advance(world.runtime, job_id)
    return world.messages.gpu_requests[-1][0]


def jump_while_it_runs(world: World, request_id: str, by_s: float) -> None:
    def jump(name: str) -> None:
        if name == "gpu_claimed":
            world.clock.advance(by_s)

    world.runtime.at_boundary = jump
    serve(world.runtime, request_id)
    world.runtime.at_boundary = lambda _: None


def used(world: World) -> float:
    return inbox.gpu_seconds_since(REPOSITORY, world.clock.now - DAY_S, "Mona")


@pytest.mark.parametrize("by_s", [DAY_S, 0.9 * DAY_S, -DAY_S])
def test_gpu_time_is_what_the_host_measured(world: World, by_s: float) -> None:
    request_id = begin(world)
    start = world.clock.now
    jump_while_it_runs(world, request_id, by_s)
    world.clock.now = start + 60
    with world.runtime.database.read() as session:
        took = session.query(LedgerEntry.amount).scalar()
    assert 0 < took < 60
    assert used(world) == pytest.approx(took)


def test_a_request_that_runs_counts_for_no_longer_than_it_may_run(world: World) -> None:
    request_id = begin(world)
    with world.runtime.database.write() as session:
        assert gpu_work.claim(session, request_id, "token", "host", world.clock.now, 60) is not None
    world.clock.advance(100)
    assert used(world) == pytest.approx(100)
    world.clock.advance(0.9 * DAY_S)
    assert used(world) == world.runtime.settings.gpu_time_limit_s


def test_limits_of_a_day_forget_what_a_clock_dated_that_was_put_back(world: World) -> None:
    world.clock.advance(365 * DAY_S)
    serve(world.runtime, begin(world))
    assert len(inbox.submitted_since(REPOSITORY, world.clock.now - DAY_S)) == 1
    assert used(world) > 0
    world.clock.advance(-365 * DAY_S)
    assert inbox.submitted_since(REPOSITORY, world.clock.now - DAY_S) == ()
    assert used(world) == 0


def test_budgets_of_a_day_forget_what_a_clock_dated_that_was_put_back(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    budget = Budget(BudgetScope.person, BudgetUnit.tokens, 1000, "A_SETTING")
    now = world.clock.now
    entry = LedgerEntry(
        key="one", job_id=job_id, repository=REPOSITORY, person="mona", unit="input_tokens", amount=900, at=now
    )
    with world.runtime.database.write() as session:
        session.add(entry)
        session.flush()
        job = jobs.locked(session, job_id)
        assert job is not None
        gone = [spending.rooms(session, job, (budget,), at)[0].used for at in (now, now - 30 * DAY_S, now + DAY_S)]
    assert gone == [900, 0, 0]


def test_a_host_of_a_clock_that_was_put_back_is_not_taken_for_one_at_work(world: World) -> None:
    world.clock.advance(DAY_S)
    request_id = begin(world)
    with world.runtime.database.write() as session:
        assert gpu_work.claim(session, request_id, "token", "host", world.clock.now, 60) is not None
    world.clock.advance(-DAY_S)
    assert inbox.gpu_hosts_ready() == (True, "0 at work, 1 waiting")
    for _ in range(2):
        reconcile(world.runtime)
        world.clock.advance(61)
    assert inbox.gpu_hosts_ready()[0] is False, "offered again in vain"
    with world.runtime.database.read() as session:
        (host,) = gpu_work.hosts(session, world.clock.now)
    assert (host.running, host.lost) == (0, 1)
