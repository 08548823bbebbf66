from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from gpu_runner.contracts import GpuResult
from tests.workers.engine.fakes import DiedError, request
from tests.workers.store.fixtures import sqlite_first
from tests.workers.store.worlds import World
from workers import embedded, inbox
from workers.contracts import NOTIFIED_LOSSES, JobState, StatusUpdate
from workers.engine.advance import advance
from workers.gpu_host.supervise import serve
from workers.pipelines.transitions import MAX_LOSSES
from workers.store import gpu_work
from workers.store.gpu_work import GpuLease
from workers.upkeep import reconcile

__all__ = ["sqlite_first"]


def asked(world: World) -> str:
    job_id = inbox.submit(request()).job_id
    advance(world.runtime, job_id)
    return job_id


def lose_a_host(world: World) -> None:
    """Have a host die at work, and let its lease run out."""

    def die(name: str) -> None:
        if name == "gpu_claimed":
            raise DiedError

    world.runtime.at_boundary = die
    try:
        serve(world.runtime, world.messages.gpu_requests[0][0])
    except DiedError:
        world.runtime.at_boundary = lambda _: None
    world.clock.advance(61)


def alarmed(world: World) -> bool:
    """Make one pass of upkeep, and tell whether it says that no GPU host is at work."""
    with capture_logs() as events:
        reconcile(world.runtime)
    return any(event["event"] == "no_gpu_host" for event in events)


def claim(world: World) -> GpuLease | None:
    with world.runtime.database.write() as session:
        return gpu_work.claim(session, world.messages.gpu_requests[0][0], "token", "host", world.clock.now, 60)


def statuses(world: World) -> int:
    return sum(isinstance(update.update, StatusUpdate) for update in world.publish())


def test_request_that_was_just_asked_is_no_reason_to_worry(world: World) -> None:
    job = world.job(asked(world))
    assert (job.no_host_since, job.host_lost) == (None, False)
    assert inbox.gpu_hosts_ready() == (True, "0 at work, 1 waiting")


def test_request_that_was_offered_in_vain_is_told_with_the_time_since_which_it_waits(world: World) -> None:
    job_id = asked(world)
    statuses(world)
    world.clock.advance(61)
    reconcile(world.runtime)
    job = world.job(job_id)
    assert (job.no_host_since, job.host_lost) == ("2027-01-15T08:00:00.000+00:00", False)
    assert inbox.gpu_hosts_ready() == (False, "1 waiting for 1 min and no host at work, queue gpu.any")
    assert statuses(world) == 1


def test_request_whose_host_was_lost_is_told_and_counted_apart(world: World) -> None:
    job_id = asked(world)
    lose_a_host(world)
    statuses(world)
    assert not alarmed(world), "the host may be back, and is offered it in this moment"
    assert inbox.gpu_hosts_ready()[0]
    assert statuses(world) == 0
    world.clock.advance(61)
    assert alarmed(world)
    job = world.job(job_id)
    assert (job.no_host_since, job.host_lost) == ("2027-01-15T08:01:00.000+00:00", True)
    assert inbox.counts()["gpu_requests"] == {"lost": 1}
    ready, told = inbox.gpu_hosts_ready()
    assert not ready
    assert told.endswith("was lost")
    assert statuses(world) == 1


@pytest.mark.parametrize("jump_s", [-86_400, -600, 0, 600, 86_400])
def test_clock_that_jumps_while_no_host_is_at_work_neither_hides_that_nor_tells_it_early(
    world: World, jump_s: float
) -> None:
    asked(world)
    lose_a_host(world)
    assert not alarmed(world)
    world.clock.advance(jump_s)
    told = []
    for _ in range(30):
        told.append(alarmed(world))
        world.clock.advance(61)
    assert told.index(True) <= 11, "as late as the clock is behind, in minutes"
    assert not inbox.gpu_hosts_ready()[0]


@pytest.mark.parametrize("down_s", [-600, 5, 3600])
def test_installation_that_was_started_again_offers_what_waits_before_it_tells_that_nobody_takes_it(
    world: World, down_s: float
) -> None:
    asked(world)
    world.clock.advance(down_s)
    with world.runtime.database.write() as session:
        gpu_work.forget_offers(session)
    sent = len(world.messages.gpu_requests)
    assert not alarmed(world)
    assert inbox.gpu_hosts_ready() == (True, "0 at work, 1 waiting")
    assert len(world.messages.gpu_requests) == sent + 1, "its Redis may have been emptied"
    world.clock.advance(61)
    assert alarmed(world)


def test_host_that_takes_what_was_told_to_wait_has_that_told_as_well(world: World) -> None:
    job_id = asked(world)
    lose_a_host(world)
    alarmed(world)
    world.clock.advance(61)
    assert alarmed(world)
    statuses(world)
    seen = []
    world.runtime.at_boundary = lambda name: seen.append(world.job(job_id)) if name == "gpu_claimed" else None
    serve(world.runtime, world.messages.gpu_requests[0][0])
    ((since, lost),) = [(job.no_host_since, job.host_lost) for job in seen]
    assert (since, lost) == (None, False)
    (event,) = [event.text for event in world.job(job_id).timeline if event.kind == "gpu_host_lost"]
    assert event.endswith("lost over it so far: 1")
    assert statuses(world) >= 1


def test_request_that_waits_for_its_turn_is_not_told(world: World) -> None:
    first, second = (inbox.submit(request(f"comment/{number}")).job_id for number in (1, 2))
    for job_id in (first, second):
        advance(world.runtime, job_id)
    world.clock.advance(61)
    seen = []

    def look(name: str) -> None:
        if name == "gpu_claimed":
            reconcile(world.runtime)
            seen.append(world.job(second).no_host_since)

    world.runtime.at_boundary = look
    serve(world.runtime, world.messages.gpu_requests[0][0])
    assert seen == [None]


def test_request_over_which_three_hosts_were_lost_says_so_and_goes_on_with_a_host_that_lives(world: World) -> None:
    job_id = asked(world)
    for _ in range(NOTIFIED_LOSSES):
        lose_a_host(world)
    reconcile(world.runtime)
    assert world.job(job_id).losses == NOTIFIED_LOSSES
    embedded.drive()
    assert world.job(job_id).state is JobState.waiting
    assert world.job(job_id).losses == 0


def test_pauses_grow_between_hosts_that_are_lost_over_a_request_and_end_somewhere(world: World) -> None:
    asked(world)
    pauses = []
    for _ in range(MAX_LOSSES):
        before = world.clock.now
        while not claim(world):
            world.clock.advance(10)
        pauses.append(world.clock.now - before)
        world.clock.advance(60)
    # The first three in a row; from then on a host has time for other work, and one that lives is not left idle for long.
    assert pauses[:7] == [0, 0, 0, 0, 60, 180, 420]
    assert set(pauses[7:]) == {540}


def test_host_that_is_told_to_end_leaves_no_pause_behind(world: World) -> None:
    asked(world)
    for _ in range(5):
        lose_a_host(world)
        world.clock.advance(600)
    lease = claim(world)
    assert lease
    with world.runtime.database.write() as session:
        gpu_work.leave(session, lease.request.request_id, lease.token)
    assert claim(world)


def test_request_over_which_host_after_host_was_lost_is_given_up_though_no_host_is_left(world: World) -> None:
    job_id = asked(world)
    for _ in range(MAX_LOSSES):
        assert reconcile(world.runtime).given_up == ()
        lose_a_host(world)
        world.clock.advance(600)
    assert len(reconcile(world.runtime).given_up) == 1
    assert reconcile(world.runtime).given_up == ()
    assert inbox.counts()["gpu_requests"] == {"done": 1}
    assert world.messages.jobs[-1] == job_id
    assert world.job(job_id).state is JobState.running


def test_job_that_ended_is_said_to_wait_for_nothing(world: World) -> None:
    job_id = asked(world)
    lose_a_host(world)
    inbox.cancel(job_id, "mona")
    reconcile(world.runtime)
    assert world.job(job_id).no_host_since is None
    assert inbox.gpu_hosts_ready() == (True, "0 at work, 0 waiting")
    embedded.drive()
    assert world.job(job_id).state is JobState.cancelled


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, ""),
        (
            "IsolationUnavailable: neither holds: /home/smith",
            "; the last request could not be carried out: IsolationUnavailable",
        ),
        ("/home/smith is gone: look", "; the last request could not be carried out"),
    ],
)
def test_a_host_that_could_carry_nothing_out_is_not_well(world: World, error: str | None, told: str) -> None:
    asked(world)
    lease = claim(world)
    assert lease is not None
    result = GpuResult(lease.request.request_id, lease.request.action, None, error=error)
    with world.runtime.database.write() as session:
        assert gpu_work.answer(session, lease.request.request_id, "token", result, world.clock.now)
    assert inbox.gpu_hosts_ready() == (error is None, f"0 at work, 0 waiting{told}")


def test_request_is_offered_again_every_ten_minutes_at_the_latest(world: World) -> None:
    asked(world)
    offered = []
    for minute in range(1, 60):
        world.clock.advance(60)
        if reconcile(world.runtime).gpu_requests:
            offered.append(minute)
    assert offered == [1, 2, 4, 8, 16, 26, 36, 46, 56]


def test_host_between_two_requests_is_at_work(world: World) -> None:
    first, second = (inbox.submit(request(f"comment/{number}")).job_id for number in (1, 2))
    for job_id in (first, second):
        advance(world.runtime, job_id)
    world.clock.advance(61)
    reconcile(world.runtime)
    serve(world.runtime, world.messages.gpu_requests[0][0])
    assert inbox.gpu_hosts_ready() == (True, "0 at work, 1 waiting")
    assert world.job(second).no_host_since is None
    world.clock.advance(61)
    assert not inbox.gpu_hosts_ready()[0]
