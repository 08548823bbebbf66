from __future__ import annotations

import errno
import fcntl
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from gpu_runner.contracts import Action, DoctorRequest, GpuResult, Isolation, Limits
from tests.workers.engine.fakes import fake_stages, request
from tests.workers.engine.test_advance import Scripted
from tests.workers.store.worlds import World
from workers import artifacts, embedded, inbox
from workers.contracts import JobState, StageName
from workers.engine.protocol import StageContext, StageResult
from workers.gpu_host import execute, runner, supervise
from workers.gpu_host.runner import parse_capability
from workers.gpu_host.supervise import serve
from workers.pipelines.transitions import MAX_LOSSES
from workers.store import gpu_work
from workers.store.blobs import BlobStore

PROLOGUE = """
import json, os, sys, time
from pathlib import Path
asked = dict(zip(sys.argv[1::2], sys.argv[2::2]))
request = json.loads(Path(asked["--request"]).read_text())
result = {"request_id": request["request_id"], "action": request["action"], "payload": {}}
target = Path(asked["--result"], "result.json")
"""


def ask(
    world: World,
    tmp_path: Path,
    runner: str | None = None,
    files: dict[str, str] | None = None,
    time_s: float = 30,
    key: str = "comment/1",
) -> list[GpuResult]:
    """Have a stage ask a runner once; the results that it sees are in the list that is given back."""
    seen: list[GpuResult] = []

    def run(context: StageContext) -> StageResult:
        seen.append(context.gpu("g", DoctorRequest(), Action.doctor, files, Limits(time_s=time_s)))
        return StageResult()

    if runner is not None:
        script = tmp_path / "runner.py"
        script.write_text(PROLOGUE + runner)
        world.runtime.runner_command = (sys.executable, str(script))
    stages = {**fake_stages(), StageName.analyze: Scripted(run)}
    world.runtime.stages = lambda: stages
    inbox.submit(request(key))
    return seen


def error_of(results: list[GpuResult]) -> str:
    (result,) = results
    assert result.payload is None
    assert result.error is not None
    return result.error


def test_runner_sees_nothing_of_the_workers_environment(
    local: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:secret@h/d")
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    results = ask(local, tmp_path)
    embedded.drive()
    payload = results[0].payload or {}
    allowed = {
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "LC_CTYPE",
        "PYTHONPATH",
        "TRITON_INTERPRET",
        "XDG_CACHE_HOME",
        *runner.KEPT_VARIABLES,
    }
    assert set(payload["environment"]) <= allowed
    assert {"PATH", "HOME", "TRITON_INTERPRET"} <= set(payload["environment"])


def test_the_host_says_how_its_children_are_kept_in_and_not_who_asks(local: World, tmp_path: Path) -> None:
    asking = local.runtime.settings
    local.runtime.settings = asking.model_copy(update={"require_isolation": (Isolation.process,)})
    told = "target.write_text(json.dumps(result | {'payload': {'require': request['require']}}))"
    results = ask(local, tmp_path, told)
    assert embedded.drive(1) == 1  # the stage asks
    local.runtime.settings = asking.model_copy(update={"require_isolation": (Isolation.landlock,)})
    embedded.drive()
    assert results[0].payload == {"require": ["landlock"]}


def test_files_lie_beside_the_request(local: World, tmp_path: Path) -> None:
    results = ask(local, tmp_path, files={"tree.tar.gz": artifacts.put(b"a tarball")})
    embedded.drive()
    assert {"tree.tar.gz", "request.json"} <= set((results[0].payload or {})["files"])


def test_a_host_with_a_full_disk_takes_nothing_says_so_and_goes_on_once_there_is_room(
    local: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = ask(local, tmp_path, "target.write_text(json.dumps(result))")
    job_id = inbox.find_jobs("acme/kernels")[0].job_id
    with monkeypatch.context() as full:
        full.setattr(runner, "has_room", lambda least: False)
        full.setattr(supervise, "has_room", lambda least: False)
        embedded.drive()
    job = local.job(job_id)
    assert job.state is JobState.running
    assert job.host_trouble is not None
    assert job.host_trouble.endswith(": the disk is full")
    ready, told = inbox.gpu_hosts_ready()
    assert not ready
    assert told.endswith(": the disk is full")
    assert [event.kind for event in job.timeline].count("gpu_host_unusable") == 1
    assert (results, local.job(job_id).losses) == ([], 0)
    local.clock.advance(gpu_work.DECLINED_S)
    embedded.drive()
    assert len(results) == 1
    assert local.job(job_id).host_trouble is None


def test_a_disk_that_fills_up_ends_the_runner_before_anybody_is_accused_and_three_times_end_it(
    local: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "has_room", lambda least: False)
    results = ask(local, tmp_path, "Path('begun').touch(); time.sleep(60)")
    embedded.drive()
    assert "before the disk of the temporary directory was full" in error_of(results)


def test_a_host_that_cannot_lay_a_request_out_leaves_it_to_others(
    local: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: BlobStore, digest: str) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    results = ask(local, tmp_path, "target.write_text(json.dumps(result))", {"tree": artifacts.put(b"a tarball")})
    with monkeypatch.context() as patched:
        patched.setattr(BlobStore, "get", full)
        embedded.drive()
    assert results == []
    local.clock.advance(gpu_work.DECLINED_S)
    embedded.drive()
    assert results[0].error is None


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "request.json", "result", "..", ""])
def test_file_names_that_lead_elsewhere_are_refused(local: World, tmp_path: Path, name: str) -> None:
    results = ask(local, tmp_path, files={name: artifacts.put(b"x")})
    embedded.drive()
    assert "no name for a file" in error_of(results)


@pytest.mark.parametrize(
    ("runner", "words"),
    [
        ("print('no CUDA here'); sys.exit(3)", "exit code 3"),
        ("print('no CUDA here'); sys.exit(3)", "no CUDA here"),
        ("target.write_text('{')", "JSONDecodeError"),
        ("target.write_text(json.dumps(result | {'request_id': 'another'}))", "answers another request"),
        ("target.write_text(json.dumps(result | {'surprise': 1}))", "unknown field surprise"),
        ("target.symlink_to('/etc/hostname')", "OSError"),
        ("os.mkfifo(target)", "no file of at most"),
        ("target.mkdir()", "Error"),
        ("target.open('wb').truncate(100 << 20)", "at most 64 MiB"),
        ("os.kill(os.getpid(), 9)", "exit code -9"),
    ],
)
def test_runner_that_gives_no_good_result_is_a_result_with_an_error(
    local: World, tmp_path: Path, runner: str, words: str
) -> None:
    results = ask(local, tmp_path, runner)
    embedded.drive()
    assert words in error_of(results)


def test_runner_past_its_deadline_is_killed_with_its_children(
    local: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "GRACE_S", 0.0)
    pids = tmp_path / "pids"
    runner = f"child = os.fork()\nopen({str(pids)!r}, 'a').write(f'{{os.getpid()}} ')\ntime.sleep(60)"
    results = ask(local, tmp_path, runner, time_s=1.0)
    started = time.monotonic()
    embedded.drive()
    assert time.monotonic() - started < 10
    assert "killed after 1 s" in error_of(results)
    for pid in map(int, pids.read_text().split()):
        assert not _runs(pid)


def test_cancelling_the_job_kills_the_runner(local: World, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    object.__setattr__(local.runtime.settings, "lease_s", 0.3)
    ask(local, tmp_path, f"open({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")
    embedded.step()
    worker = threading.Thread(target=embedded.step)
    worker.start()
    pid = _wait_for_pid(pid_file)
    (job,) = inbox.find_jobs("acme/kernels")
    inbox.cancel(job.job_id, "mona")
    worker.join(timeout=20)
    assert not worker.is_alive()
    assert not _runs(pid)


def test_long_request_keeps_its_lease(local: World, tmp_path: Path) -> None:
    object.__setattr__(local.runtime.settings, "lease_s", 0.6)
    local.runtime.clock = time.time
    results = ask(local, tmp_path, "time.sleep(1.5)\ntarget.write_text(json.dumps(result))")
    embedded.drive()
    assert results[0].error is None
    assert [e.kind for e in inbox.find_jobs("acme/kernels")[0].timeline].count("gpu_finished") == 1


def test_request_is_answered_by_one_of_two_hosts(world: World, tmp_path: Path) -> None:
    ask(world, tmp_path)
    embedded.step()
    ((request_id, _),) = world.messages.gpu_requests
    answers: list[bool] = []
    hosts = [threading.Thread(target=lambda: answers.append(serve(world.runtime, request_id))) for _ in range(4)]
    for host in hosts:
        host.start()
    for host in hosts:
        host.join()
    assert sorted(answers) == [False, False, False, True]
    assert serve(world.runtime, request_id) is False


def test_request_of_lost_hosts_is_taken_again_and_in_the_end_answered_with_an_error(
    world: World, tmp_path: Path
) -> None:
    results = ask(world, tmp_path)
    embedded.step()
    ((request_id, _),) = world.messages.gpu_requests
    for number in range(MAX_LOSSES):
        with world.runtime.database.write() as session:
            lease = gpu_work.claim(session, request_id, f"token {number}", f"host {number}", world.clock.now, 60)
        assert lease is not None
        assert lease.tries == number + 1
        assert embedded.step() is False
        world.clock.advance(660)
    embedded.drive()
    assert f"lost {MAX_LOSSES} times" in error_of(results)
    assert world.job(inbox.find_jobs("acme/kernels")[0].job_id).state is JobState.waiting


@pytest.mark.parametrize("number", [9, 15])
def test_request_whose_runner_was_killed_is_tried_again(world: World, tmp_path: Path, number: int) -> None:
    killed = tmp_path / "killed"
    once = f"(killed := Path({str(killed)!r})).exists() or (killed.touch(), os.kill(os.getpid(), {number}))"
    results = ask(world, tmp_path, f"{once}; target.write_text(json.dumps(result))")
    embedded.drive()
    assert killed.exists()
    assert [result.error for result in results] == [None]
    assert len(world.messages.gpu_requests) == 2


def test_request_whose_runner_is_killed_every_time_is_answered_so_whatever_hosts_were_lost_before(
    world: World, tmp_path: Path
) -> None:
    killed = tmp_path / "killed"
    results = ask(world, tmp_path, f"Path({str(killed)!r}).open('a').write('x'); os.kill(os.getpid(), 9)")
    embedded.step()
    ((request_id, _),) = world.messages.gpu_requests
    for number in range(4):
        with world.runtime.database.write() as session:
            assert gpu_work.claim(session, request_id, f"token {number}", f"host {number}", world.clock.now, 60)
        world.clock.advance(660)
    embedded.drive()
    assert killed.read_text() == "x" * gpu_work.MAX_RUNNER_KILLS
    assert "was killed 3 times" in error_of(results)
    assert "exit code -9" in error_of(results)


def test_interrupted_host_gives_its_request_back_at_once(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = ask(world, tmp_path)
    embedded.step()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("workers.gpu_host.execute.time.monotonic", _interrupt)
        embedded.step()
    embedded.drive()
    assert results[0].error is None


def test_late_answer_of_a_host_that_lost_its_lease_is_dropped(world: World, tmp_path: Path) -> None:
    ask(world, tmp_path)
    embedded.step()
    ((request_id, _),) = world.messages.gpu_requests
    with world.runtime.database.write() as session:
        lost = gpu_work.claim(session, request_id, "token", "lost", world.clock.now, 60)
    assert lost is not None
    world.clock.advance(61)
    assert serve(world.runtime, request_id) is True
    late = GpuResult(request_id, Action.doctor, None, error="late")
    with world.runtime.database.write() as session:
        assert gpu_work.answer(session, request_id, lost.token, late, world.clock.now) is None


def test_a_secret_that_a_test_printed_is_not_stored_and_a_file_stays_as_it_is(world: World, tmp_path: Path) -> None:
    from workers.store.models import GpuWork

    token, picture = "ghp_" + "a1B2c3D4" * 5, "AKIA" + "Q7" * 8
    payload = {"log": f"GITHUB_TOKEN={token}", "nodes": [{"id": token, "passed": 3}], "picture": {"base64": picture}}
    seen = ask(world, tmp_path, f"result['payload'] = {payload!r}\ntarget.write_text(json.dumps(result))\n")
    embedded.drive()
    with world.runtime.database.read() as session:
        (work,) = session.query(GpuWork).all()
        assert token not in str(work.result)
    assert seen[0].payload == {
        "log": "GITHUB_TOKEN=[redacted: GitHub token]",
        "nodes": [{"id": "[redacted: GitHub token]", "passed": 3}],
        "picture": {"base64": picture},
    }


def test_gpu_seconds_are_charged_once(world: World, tmp_path: Path) -> None:
    from sqlalchemy import select

    from workers.store.models import LedgerEntry

    ask(world, tmp_path)
    embedded.drive()
    with world.runtime.database.read() as session:
        entries = [(e.person, e.unit, e.amount) for e in session.scalars(select(LedgerEntry))]
    assert entries == [("mona", "gpu_seconds", 0.5)]


def test_folders_of_killed_supervisors_are_removed_and_those_in_use_are_not(tmp_path: Path) -> None:
    left, used, young = (tmp_path / f"{runner.PREFIX}{name}" for name in ("left", "used", "young"))
    for folder in (left, used, young):
        folder.mkdir()
        (folder / runner.LOCK).touch()
    for folder in (left, used):
        os.utime(folder, (0, 0))
    with (used / runner.LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        runner.sweep(tmp_path, 60)
    assert sorted(tmp_path.iterdir()) == [used, young]


@pytest.mark.parametrize(
    ("printed", "architecture"),
    [("9.0\n", "sm_90"), ("12.1\n12.1\n", "sm_121"), ("", "interpreter"), ("No devices were found\n", "interpreter")],
)
def test_architecture_is_read_from_what_nvidia_smi_prints(printed: str, architecture: str) -> None:
    assert parse_capability(printed) == architecture


def _interrupt() -> float:
    raise KeyboardInterrupt


def _wait_for_pid(path: Path) -> int:
    for _ in range(500):
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.02)
    raise AssertionError("the runner did not start")


def _runs(pid: int) -> bool:
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return False
            os.kill(pid, 0)
        except (ProcessLookupError, FileNotFoundError):
            return False
        time.sleep(0.02)
    return True
