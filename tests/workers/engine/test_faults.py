from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import update

from tests.few import few
from tests.workers.engine.fakes import request
from tests.workers.engine.mortals import Mortals, started
from tests.workers.store.worlds import World
from workers import embedded, inbox, outbox
from workers.contracts import (
    CheckpointUpdate,
    ClaimedUpdate,
    CommitPurpose,
    CommitUpdate,
    Effect,
    JobState,
    ReadyUpdate,
    StageState,
    StatusUpdate,
)
from workers.engine.advance import advance
from workers.gpu_host.supervise import serve
from workers.store import attempts
from workers.store.models import GpuWork, StageAttempt
from workers.upkeep import reconcile

pytestmark = pytest.mark.fault

# Where a process can die between two transactions, on the way of one stage that keeps a value and asks a GPU twice.
BOUNDARIES = [
    "stage_claimed",
    "memo_computed",
    "memo_kept",
    "gpu_requested",
    "stage_settled",
    "gpu_claimed",
    "gpu_ran",
    "gpu_answered",
    "stage_claimed",
    "gpu_requested",
    "stage_settled",
    "gpu_claimed",
    "gpu_ran",
    "gpu_answered",
    "stage_claimed",
    "stage_ran",
    "stage_settled",
]


@pytest.fixture(scope="module")
def mortals() -> Iterator[Mortals]:
    with started() as process:
        yield process


def url_of(world: World) -> str | None:
    secret = world.runtime.settings.database_url
    return None if secret is None else secret.get_secret_value()


def carry_on(world: World) -> None:
    """Be the process that is started after the crash, once every lease has run out."""
    world.clock.advance(3600)
    reconcile(world.runtime)
    embedded.drive()


def assert_done_once(world: World, job_id: str) -> None:
    """One attempt, one set of updates, one answer for each GPU request: as if nothing had happened."""
    job = world.job(job_id)
    assert job.state is JobState.waiting
    assert [(s.attempt, s.state) for s in job.stages] == [(1, StageState.waiting)]
    told = [u.update for u in world.publish() if not isinstance(u.update, StatusUpdate)]
    assert [type(u) for u in told] == [CommitUpdate, CommitUpdate, CheckpointUpdate]
    assert [u.purpose for u in told if isinstance(u, CommitUpdate)] == [CommitPurpose.reference, CommitPurpose.kernel]
    kinds = [e.kind for e in job.timeline]
    for kind in ("gpu_requested", "gpu_finished"):
        assert kinds.count(kind) == 2
    assert kinds.count("stage_started") == kinds.count("checkpoint") == 1
    assert inbox.counts()["gpu_requests"] == {"done": 2}
    assert [a.name for a in job.artifacts] == ["analyze.txt"]
    assert embedded.drive() == 0


def test_boundaries_are_those_that_are_tried(local: World, mortals: Mortals, tmp_path: Path) -> None:
    job_id = inbox.submit(request()).job_id
    answer = mortals.work(tmp_path, None)
    assert answer["seen"][:-1] == BOUNDARIES
    assert (answer["signal"], answer["exit"]) == (None, 0)
    assert_done_once(local, job_id)


@pytest.mark.parametrize("boundary", range(len(BOUNDARIES)), ids=lambda n: f"{n}-{BOUNDARIES[n]}")
def test_job_killed_at_a_boundary_is_carried_on_as_if_nothing_had_happened(
    local: World, mortals: Mortals, tmp_path: Path, boundary: int
) -> None:
    job_id = inbox.submit(request()).job_id
    answer = mortals.work(tmp_path, None, boundary=boundary)
    assert answer["signal"] == signal.SIGKILL
    assert answer["seen"][-1] == BOUNDARIES[boundary]
    carry_on(local)
    assert_done_once(local, job_id)


@pytest.mark.parametrize("statement", range(4, 150, 21))
def test_job_killed_inside_a_transaction_is_carried_on_as_if_nothing_had_happened(
    world: World, mortals: Mortals, tmp_path: Path, statement: int
) -> None:
    job_id = inbox.submit(request()).job_id
    answer = mortals.work(tmp_path, url_of(world), statement=statement)
    assert answer["signal"] == signal.SIGKILL
    carry_on(world)
    assert_done_once(world, job_id)


def test_job_killed_again_and_again_is_finished_while_it_makes_progress(
    local: World, mortals: Mortals, tmp_path: Path
) -> None:
    job_id = inbox.submit(request()).job_id
    ends = []
    for _ in range(8):
        with local.runtime.database.write() as session:
            session.execute(update(StageAttempt).where(StageAttempt.lease_token.is_not(None)).values(lease_until=0.0))
            session.execute(update(GpuWork).where(GpuWork.lease_token.is_not(None)).values(lease_until=0.0))
        ends.append(mortals.work(tmp_path, None, boundary=2)["signal"])
    assert ends == [signal.SIGKILL] * 6 + [None] * 2
    carry_on(local)
    assert_done_once(local, job_id)


def test_runner_does_not_outlive_its_supervisor(local: World, mortals: Mortals, tmp_path: Path) -> None:
    job_id = inbox.submit(request()).job_id
    embedded.step()
    pid_file, runner = tmp_path / "pid", tmp_path / "runner.py"
    runner.write_text(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))\n"
        "os.kill(os.getppid(), 9)\n"
        "time.sleep(60)\n"
    )
    answer = mortals.work(tmp_path, None, runner=[str(runner)])
    assert answer["signal"] == signal.SIGKILL
    assert ends(int(pid_file.read_text()))
    carry_on(local)
    assert_done_once(local, job_id)


def ends(pid: int) -> bool:
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


def test_every_message_twice_does_nothing_the_second_time(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    for _ in range(3):
        assert advance(world.runtime, job_id) is True
        assert advance(world.runtime, job_id) is False
        for request_id, _ in world.messages.gpu_requests:
            serve(world.runtime, request_id)
            assert serve(world.runtime, request_id) is False
    assert_done_once(world, job_id)


def test_messages_out_of_order_do_nothing_too_early(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    assert serve(world.runtime, "0" * 32) is False
    assert advance(world.runtime, "nosuch") is False
    advance(world.runtime, job_id)
    assert advance(world.runtime, job_id) is False
    embedded.drive()
    assert_done_once(world, job_id)


@pytest.mark.parametrize("database_url", few(["sqlite", "postgresql"], ["postgresql"]), indirect=True)
def test_many_workers_and_publishers_at_once_do_everything_once(world: World) -> None:
    ids = [inbox.submit(request(f"comment/{number}", auto=True)).job_id for number in range(4)]
    published: list[ClaimedUpdate] = []

    def is_over() -> bool:
        time.sleep(0.01)  # asked where there was nothing to do
        with world.runtime.database.read() as session:
            return all(attempts.job_state(session, job_id) == JobState.done for job_id in ids)

    def work() -> None:
        while embedded.step() or not is_over():
            pass

    def publish(worker: str) -> None:
        while True:
            if (claimed := outbox.claim(worker, 30)) is not None:
                assert outbox.complete(claimed.update_id, worker, Effect())
                published.append(claimed)
            elif is_over():
                return

    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(work) for _ in range(4)] + [pool.submit(publish, f"p{n}") for n in range(2)]
        for future in futures:
            future.result(timeout=120)
    published += world.publish()
    for job_id in ids:
        own = [u for u in published if u.job.job_id == job_id]
        assert [u.sequence for u in own] == list(range(1, len(own) + 1))
        told = [type(u.update) for u in own if not isinstance(u.update, StatusUpdate)]
        assert told == [CommitUpdate, CommitUpdate, CheckpointUpdate] * 3 + [ReadyUpdate]
        assert [s.attempt for s in world.job(job_id).stages] == [1, 1, 1]
    assert inbox.counts()["gpu_requests"] == {"done": 24}
