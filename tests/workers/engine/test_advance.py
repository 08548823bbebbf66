from __future__ import annotations

import contextlib
import errno
import logging
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from gpu_runner.contracts import Action, DoctorRequest, GpuResult
from tests.workers.engine.fakes import FakeStage, fake_stages, request
from tests.workers.store.worlds import World
from workers import embedded, inbox
from workers.contracts import (
    CheckpointUpdate,
    CommitUpdate,
    Failure,
    FailureCode,
    JobOptions,
    JobState,
    ReadyUpdate,
    ReportUpdate,
    StageName,
    StageState,
    StatusUpdate,
    UserFacingError,
    Verb,
)
from workers.engine.advance import advance
from workers.engine.protocol import StageContext, StageResult
from workers.pipelines import PIPELINES
from workers.pipelines.transitions import MAX_LOSSES

Run = Callable[[StageContext], StageResult]


class Scripted:
    """An analyze stage that does what a test says."""

    name = StageName.analyze

    def __init__(self, run: Run) -> None:
        self._run = run

    def run(self, context: StageContext) -> StageResult:
        return self._run(context)


def script(world: World, run: Run) -> str:
    stages = {**fake_stages(), StageName.analyze: Scripted(run)}
    world.runtime.stages = lambda: stages
    return inbox.submit(request()).job_id


def updates(world: World) -> list[object]:
    return [u.update for u in world.publish() if not isinstance(u.update, StatusUpdate)]


def test_each_pause_replays_the_stage_and_repeats_nothing(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    stage = world.runtime.stages()[StageName.analyze]
    assert isinstance(stage, FakeStage)
    assert embedded.drive() == 5
    assert stage.runs == 3
    assert [type(u) for u in updates(world)] == [CommitUpdate, CommitUpdate, CheckpointUpdate]
    kinds = [e.kind for e in world.job(job_id).timeline]
    assert kinds.count("gpu_requested") == kinds.count("gpu_finished") == 2
    assert kinds.count("stage_started") == kinds.count("checkpoint") == 1


def test_memo_is_computed_once_and_none_is_a_value(world: World) -> None:
    calls: list[str] = []

    def note(name: str, value: object = None) -> object:
        calls.append(name)
        return value

    def run(context: StageContext) -> StageResult:
        assert context.memo("none", lambda: note("none")) is None
        assert context.memo("dict", lambda: note("dict", {"a": (1, 2)})) == {"a": [1, 2]}
        context.gpu("g", DoctorRequest(), Action.doctor)
        return StageResult()

    script(world, run)
    embedded.drive()
    assert calls == ["none", "dict"]


def test_result_of_a_gpu_request_is_the_same_each_time(world: World) -> None:
    seen: list[GpuResult] = []

    def run(context: StageContext) -> StageResult:
        seen.append(context.gpu("g", DoctorRequest(), Action.doctor))
        context.gpu("h", DoctorRequest(), Action.doctor)
        return StageResult()

    script(world, run)
    embedded.drive()
    assert len(seen) == 2
    assert seen[0] == seen[1]


def test_worker_is_free_while_a_gpu_request_waits(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    assert advance(world.runtime, job_id) is True
    assert advance(world.runtime, job_id) is False
    assert len(world.messages.gpu_requests) == 1
    assert world.messages.gpu_requests[0][1] == "any"
    assert world.job(job_id).queue_position == 1


def test_request_goes_to_the_architecture_that_was_asked_for(world: World) -> None:
    job_id = inbox.submit(request(options=JobOptions(gpu="sm_90"))).job_id
    advance(world.runtime, job_id)
    assert [a for _, a in world.messages.gpu_requests] == ["sm_90"]


def test_notes_are_shown_once_and_not_again_on_replay(world: World) -> None:
    notes: list[str] = []
    job_id = ""

    def run(context: StageContext) -> StageResult:
        for text in ("first", "second"):
            context.note(text)
            notes.append(world.job(job_id).stages[0].note)
        context.gpu("g", DoctorRequest(), Action.doctor)
        context.note("third")
        notes.append(world.job(job_id).stages[0].note)
        return StageResult()

    job_id = script(world, run)
    embedded.drive()
    assert notes == ["first", "second", "second", "second", "third"]


def test_artifacts_are_listed_and_replaced_by_name(world: World) -> None:
    def run(context: StageContext) -> StageResult:
        context.artifact("log.txt", b"old", "text/plain")
        digest = context.artifact("log.txt", b"new one", "text/plain")
        assert context.load(digest) == b"new one"
        return StageResult()

    job_id = script(world, run)
    embedded.drive()
    (artifact,) = world.job(job_id).artifacts
    assert (artifact.name, artifact.media_type, artifact.size_bytes) == ("log.txt", "text/plain", 7)


def test_later_stage_sees_the_output_of_an_earlier_one(world: World) -> None:
    seen: list[Any] = []

    def analyze(context: StageContext) -> StageResult:
        with pytest.raises(KeyError, match="generate"):
            context.result_of(StageName.generate)
        return StageResult({"attempt": context.attempt}, checkpoint=False)

    def generate(context: StageContext) -> StageResult:
        seen.append(context.result_of(StageName.analyze))
        return StageResult()

    stages = {StageName.analyze: Scripted(analyze), StageName.generate: Scripted(generate)}
    world.runtime.stages = lambda: stages
    inbox.submit(request())
    embedded.drive()
    assert seen == [{"attempt": 1}]


def test_failure_in_words_fails_the_job_with_a_report(world: World) -> None:
    failure = Failure(FailureCode.problem, "line 3 is no Python", "Correct it.", line=3)

    def run(context: StageContext) -> StageResult:
        raise UserFacingError(failure)

    job_id = script(world, run)
    embedded.drive()
    job = world.job(job_id)
    assert (job.state, job.failure, job.stages[0].failure) == (JobState.failed, failure, failure)
    assert updates(world) == [ReportUpdate(failure=failure)]


def test_error_of_our_own_is_tried_three_times_and_then_told_without_its_text(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def run(context: StageContext) -> StageResult:
        raise RuntimeError("the key is hunter2")

    caplog.set_level(logging.CRITICAL)
    job_id = script(world, run)
    for pause_s in (5, 30):
        assert embedded.drive() == 1
        assert world.job(job_id).state is JobState.running
        assert embedded.next_due_in_s() == pause_s
        world.clock.advance(pause_s)
    assert embedded.drive() == 1
    job = world.job(job_id)
    assert job.state is JobState.failed
    assert job.failure is not None
    assert job.failure.code is FailureCode.internal
    assert "reference" in job.failure.message
    assert "hunter2" not in str(updates(world))


@pytest.mark.parametrize(
    "outage",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OperationalError("INSERT", {}, sqlite3.OperationalError("disk I/O error")),
        PoolTimeoutError("QueuePool limit reached"),
    ],
    ids=str,
)
def test_stage_waits_for_a_disk_and_a_database_however_long_they_take(
    world: World, caplog: pytest.LogCaptureFixture, outage: Exception
) -> None:
    left = [outage] * 9

    def run(context: StageContext) -> StageResult:
        if left:
            raise left.pop()
        return StageResult()

    caplog.set_level(logging.CRITICAL)
    job_id = script(world, run)
    for _ in range(9):
        assert embedded.drive() == 1
        assert embedded.drive() == 0
        world.clock.advance(30)
    assert embedded.drive() == 1
    assert world.job(job_id).state is JobState.waiting


def test_error_of_the_system_that_is_no_outage_is_the_stages_own(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def run(context: StageContext) -> StageResult:
        raise FileNotFoundError(errno.ENOENT, "No such file")

    caplog.set_level(logging.CRITICAL)
    job_id = script(world, run)
    for _ in range(3):
        embedded.drive()
        world.clock.advance(60)
    assert world.job(job_id).state is JobState.failed


def test_progress_starts_the_count_of_errors_anew(world: World) -> None:
    runs: list[int] = []

    def run(context: StageContext) -> StageResult:
        runs.append(len(runs))
        context.memo(f"step {len(runs) // 2}", lambda: 1)
        if len(runs) < 7:
            raise RuntimeError("broken")
        return StageResult()

    job_id = script(world, run)
    for _ in range(7):
        embedded.drive()
        world.clock.advance(60)
    assert world.job(job_id).state is JobState.waiting


def test_broad_except_in_a_stage_does_not_catch_a_pause(world: World) -> None:
    def run(context: StageContext) -> StageResult:
        try:
            context.gpu("g", DoctorRequest(), Action.doctor)
        except Exception:
            return StageResult({"caught": True})
        return StageResult()

    job_id = script(world, run)
    embedded.drive()
    assert world.job(job_id).state is JobState.waiting
    assert inbox.counts()["gpu_requests"] == {"done": 1}


def test_cancelled_job_keeps_nothing_of_a_run_that_goes_on(world: World) -> None:
    saw: list[bool] = []

    def run(context: StageContext) -> StageResult:
        saw.append(context.cancelled())
        inbox.cancel(context.job.job_id, "mona")
        saw.append(context.cancelled())
        return StageResult({"late": True}, (ReadyUpdate(),))

    job_id = script(world, run)
    embedded.drive()
    assert saw == [False, True]
    assert world.job(job_id).state is JobState.cancelled
    assert updates(world) == [ReportUpdate(cancelled_by="mona")]


def test_auto_goes_through_all_stages_and_only_tells(world: World) -> None:
    job_id = inbox.submit(request(auto=True)).job_id
    embedded.drive()
    assert world.job(job_id).state is JobState.done
    told = [u for u in updates(world) if isinstance(u, CheckpointUpdate)]
    assert [(u.stage, u.decides) for u in told] == [(s.stage, False) for s in PIPELINES[Verb.create]]


def lasting_stage(request: DoctorRequest, ids: list[str], fails: list[bool]) -> Run:
    def run(context: StageContext) -> StageResult:
        ids.append(context.gpu("variant 1", request, Action.doctor, lasting=True).request_id)
        if fails:
            fails.pop()
            raise UserFacingError(Failure(FailureCode.environment, "the host is gone"))
        return StageResult()

    return run


def test_lasting_answer_serves_the_next_attempt(world: World) -> None:
    ids: list[str] = []
    job_id = script(world, lasting_stage(DoctorRequest(), ids, [True]))
    embedded.drive()
    assert world.job(job_id).state is JobState.failed
    assert inbox.retry(job_id, "mona")
    embedded.drive()
    assert world.job(job_id).state is JobState.waiting
    assert len(ids) == 2 and len(set(ids)) == 1


def test_lasting_answer_to_another_request_does_not_serve(world: World) -> None:
    ids: list[str] = []
    job_id = script(world, lasting_stage(DoctorRequest(), ids, [True]))
    embedded.drive()
    stages = {**fake_stages(), StageName.analyze: Scripted(lasting_stage(DoctorRequest(quick=True), ids, []))}
    world.runtime.stages = lambda: stages
    assert inbox.retry(job_id, "mona")
    embedded.drive()
    assert len(set(ids)) == 2


def test_two_workers_with_the_same_message_run_the_stage_once(world: World) -> None:
    started, go = threading.Event(), threading.Event()
    runs: list[int] = []

    def run(context: StageContext) -> StageResult:
        runs.append(1)
        started.set()
        assert go.wait(10)
        return StageResult()

    job_id = script(world, run)
    first = threading.Thread(target=advance, args=(world.runtime, job_id))
    first.start()
    assert started.wait(10)
    assert advance(world.runtime, job_id) is False
    go.set()
    first.join()
    assert runs == [1]
    assert world.job(job_id).state is JobState.waiting


def test_worker_that_lost_its_lease_keeps_nothing(world: World) -> None:
    outputs: list[bool] = []

    def run(context: StageContext) -> StageResult:
        if not outputs:
            outputs.append(True)
            world.clock.advance(61)
            assert advance(world.runtime, context.job.job_id) is True
            context.memo("late", lambda: 1)
            raise AssertionError("a lost lease ends the run")
        return StageResult({"second": True}, (ReadyUpdate(),))

    job_id = script(world, run)
    advance(world.runtime, job_id)
    assert world.job(job_id).state is JobState.waiting
    assert updates(world) == [ReadyUpdate()]


def test_stage_that_lost_three_workers_says_so_and_goes_on_with_one_that_lives(world: World) -> None:
    class DiedError(BaseException):
        pass

    deaths: list[int] = []

    def run(context: StageContext) -> StageResult:
        if len(deaths) < 5:
            deaths.append(1)
            raise DiedError
        return StageResult()

    job_id = script(world, run)
    for number in range(5):
        with pytest.raises(DiedError):
            advance(world.runtime, job_id)
        world.clock.advance(61 if number < 3 else 241)
        assert world.job(job_id).losses == number + 1
    updates(world)
    assert advance(world.runtime, job_id)
    assert world.job(job_id).state is JobState.waiting
    assert world.job(job_id).losses == 0


def test_lost_workers_are_no_errors_of_the_stage(world: World, caplog: pytest.LogCaptureFixture) -> None:
    class DiedError(BaseException):
        pass

    ends: list[BaseException] = [DiedError(), DiedError(), RuntimeError("once"), DiedError(), RuntimeError("twice")]

    def run(context: StageContext) -> StageResult:
        if ends:
            raise ends.pop(0)
        return StageResult()

    caplog.set_level(logging.CRITICAL)
    job_id = script(world, run)
    for _ in range(6):
        with contextlib.suppress(DiedError):
            assert advance(world.runtime, job_id)
        world.clock.advance(600)
    assert world.job(job_id).state is JobState.waiting


def test_stage_that_kills_worker_after_worker_fails_the_job(world: World, caplog: pytest.LogCaptureFixture) -> None:
    class DiedError(BaseException):
        pass

    def run(context: StageContext) -> StageResult:
        raise DiedError

    caplog.set_level(logging.CRITICAL)
    job_id = script(world, run)
    for _ in range(MAX_LOSSES):
        with pytest.raises(DiedError):
            advance(world.runtime, job_id)
        world.clock.advance(660)
    advance(world.runtime, job_id)
    job = world.job(job_id)
    assert job.state is JobState.failed
    assert job.failure is not None
    assert job.failure.code is FailureCode.environment
    assert f"was lost {MAX_LOSSES} times" in job.failure.message


def test_interrupted_run_can_be_taken_up_at_once(world: World) -> None:
    interrupted: list[bool] = []

    def run(context: StageContext) -> StageResult:
        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        return StageResult()

    job_id = script(world, run)
    with pytest.raises(KeyboardInterrupt):
        embedded.drive()
    embedded.drive()
    assert world.job(job_id).state is JobState.waiting


def test_retry_goes_on_from_the_failed_stage(world: World) -> None:
    broken = [True]

    def run(context: StageContext) -> StageResult:
        if broken:
            raise UserFacingError(Failure(FailureCode.environment, "no disk left"))
        return StageResult()

    stages = {**fake_stages(), StageName.generate: Scripted(run)}
    world.runtime.stages = lambda: stages
    job_id = inbox.submit(request(auto=True)).job_id
    embedded.drive()
    assert world.job(job_id).state is JobState.failed
    broken.clear()
    assert inbox.retry(job_id, "mona")
    embedded.drive()
    job = world.job(job_id)
    assert job.state is JobState.done
    assert [(s.stage, s.attempt, s.state) for s in job.stages] == [
        (StageName.analyze, 1, StageState.done),
        (StageName.generate, 1, StageState.failed),
        (StageName.generate, 2, StageState.done),
        (StageName.validate, 1, StageState.done),
    ]


def test_retry_on_a_new_snapshot_starts_over_on_a_branch_of_its_own(world: World) -> None:
    def run(context: StageContext) -> StageResult:
        if context.request.snapshot == "0" * 64:
            raise UserFacingError(Failure(FailureCode.moved, "the base has moved"))
        return StageResult()

    stages = {**fake_stages(), StageName.generate: Scripted(run)}
    world.runtime.stages = lambda: stages
    job_id = inbox.submit(request(auto=True)).job_id
    embedded.drive()
    world.publish()
    assert inbox.retry(job_id, "mona", snapshot="1" * 64, base_sha="b" * 40)
    job = world.job(job_id)
    assert (job.head_sha, job.pull_number, job.request.base_sha) == (None, None, "b" * 40)
    assert job.branch.endswith(f"{job_id}-2")
    embedded.drive()
    job = world.job(job_id)
    assert job.state is JobState.done
    assert [(s.stage, s.attempt) for s in job.stages] == [
        (StageName.analyze, 1),
        (StageName.generate, 1),
        (StageName.analyze, 2),
        (StageName.generate, 2),
        (StageName.validate, 1),
    ]
