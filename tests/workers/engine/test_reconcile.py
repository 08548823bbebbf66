from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor

import pytest
from structlog.testing import capture_logs

from tests.workers.engine.fakes import DiedError, request
from tests.workers.store.worlds import World, record
from workers import embedded, inbox, outbox, tasks
from workers.contracts import JobState
from workers.engine.advance import advance
from workers.upkeep import Reconciled, reconcile

NOTHING = Reconciled((), (), 0, 0)


def test_a_task_that_meets_a_full_disk_logs_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def broken(_: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(tasks, "current", lambda: None)
    monkeypatch.setattr(tasks, "reconcile_all", full)
    with capture_logs() as logs:
        tasks.reconcile()
    ((event, task, error, fix),) = [(line["event"], line["task"], line["error"], line["fix"]) for line in logs]
    assert (event, task, error) == ("store_unusable", "workers.upkeep", "the disk is full")
    assert "free space" in fix
    monkeypatch.setattr(tasks, "reconcile_all", broken)
    with pytest.raises(OSError, match="Bad file"):
        tasks.reconcile()


def test_nothing_left_lying_is_nothing_found(world: World) -> None:
    inbox.submit(request())
    embedded.drive()
    world.clock.advance(1000)
    assert reconcile(world.runtime) == NOTHING


def test_job_whose_message_was_lost_is_told_again_after_a_while(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    world.messages.jobs.clear()
    assert reconcile(world.runtime) == NOTHING
    world.clock.advance(61)
    assert reconcile(world.runtime).jobs == (job_id,)
    assert world.messages.jobs == [job_id]
    assert reconcile(world.runtime) == NOTHING


def test_gpu_request_whose_message_was_lost_is_offered_again_with_growing_pauses(world: World) -> None:
    inbox.submit(request())
    embedded.step()
    ((request_id, architecture),) = world.messages.gpu_requests
    offered = []
    for minute in range(1, 20):
        world.clock.advance(60)
        if reconcile(world.runtime).gpu_requests:
            offered.append(minute)
    assert offered == [1, 2, 4, 8, 16]
    assert set(world.messages.gpu_requests) == {(request_id, architecture)}


def test_job_of_a_lost_worker_goes_on_when_its_lease_has_run_out(world: World) -> None:
    job_id = inbox.submit(request()).job_id

    def die(name: str) -> None:
        if name == "stage_claimed":
            raise DiedError

    world.runtime.at_boundary = die
    try:
        advance(world.runtime, job_id)
    except DiedError:
        world.runtime.at_boundary = lambda _: None
    world.clock.advance(59)
    assert reconcile(world.runtime).jobs == ()
    world.clock.advance(2)
    assert reconcile(world.runtime).jobs == (job_id,)
    embedded.drive()
    assert len(world.publish()) == 6


def test_job_whose_gpu_answer_was_not_told_goes_on(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    embedded.step()
    embedded.step()
    world.messages.jobs.clear()
    world.clock.advance(61)
    assert reconcile(world.runtime).jobs == (job_id,)


def test_leases_on_deliveries_and_updates_of_lost_workers_are_taken_back(world: World) -> None:
    inbox.submit(request())
    record("d1", "issues", b"")
    outbox.claim("lost", 30)
    inbox.claim_delivery("lost", 30)
    assert reconcile(world.runtime) == NOTHING
    world.clock.advance(31)
    assert reconcile(world.runtime) == Reconciled((), (), 1, 1)


def handled_and_waiting() -> None:
    for name in ("handled", "waiting"):
        record(name, "issues", b"")
    inbox.finish_delivery("handled", "ok")


def test_a_clock_that_jumps_months_ahead_forgets_no_deliveries(world: World) -> None:
    handled_and_waiting()
    embedded.collect()
    world.clock.advance(90 * 86_400)
    embedded.collect()
    reconcile(world.runtime)
    assert inbox.counts()["deliveries"] == {"done": 1, "pending": 1}


def test_deliveries_that_nobody_can_send_again_are_forgotten(world: World) -> None:
    handled_and_waiting()
    world.clock.advance(29 * 86_400)
    reconcile(world.runtime)
    assert inbox.counts()["deliveries"] == {"done": 1, "pending": 1}
    world.clock.advance(2 * 86_400)
    reconcile(world.runtime)
    assert inbox.counts()["deliveries"] == {"pending": 1}


def test_passes_side_by_side_tell_each_job_once(world: World) -> None:
    for number in range(5):
        inbox.submit(request(f"comment/{number}"))
    world.messages.jobs.clear()
    world.clock.advance(61)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(reconcile, [world.runtime] * 8))
    assert len(world.messages.jobs) == len(set(world.messages.jobs)) == 5


@pytest.mark.parametrize("place", ["stage_claimed", "gpu_requested", "gpu_claimed", "gpu_answered"])
@pytest.mark.parametrize("back_s", [7200, 30 * 86_400])
def test_job_of_a_lost_process_goes_on_after_the_clock_was_put_back(world: World, place: str, back_s: float) -> None:
    job_id = inbox.submit(request()).job_id

    def die(name: str) -> None:
        if name == place:
            raise DiedError

    world.runtime.at_boundary = die
    with pytest.raises(DiedError):
        embedded.drive()
    world.runtime.at_boundary = lambda _: None
    world.clock.advance(-back_s)
    world.messages.jobs.clear()
    world.messages.gpu_requests.clear()
    reconcile(world.runtime)
    assert world.messages.jobs or world.messages.gpu_requests, "whoever looks for work is told at once"
    embedded.drive()
    assert world.job(job_id).state is JobState.waiting
    assert inbox.counts()["gpu_requests"] == {"done": 2}
