"""A runner that waits for its request: it does what any runner does, and whatever befalls it, a request is answered."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gpu_runner.contracts import Action, GpuRequest, GpuResult
from gpu_runner.sandbox import tree
from tests.workers.engine.test_gpu_host import PROLOGUE, ask
from tests.workers.store.worlds import World
from workers import embedded
from workers.gpu_host import execute as executing
from workers.gpu_host import standby as standbys
from workers.gpu_host.execute import execute
from workers.gpu_host.runner import Host
from workers.gpu_host.standby import CORES_TO_SPARE, Standby
from workers.store.blobs import BlobStore

ROOT = Path(__file__).parents[3]
HOST = Host("here", (sys.executable, "-m", "gpu_runner"), interpret=True)
# Answered without a child: the tree that it names is not there.
REQUEST = GpuRequest(
    "r1", Action.tests, {"tree": "none.tar.gz", "files": [], "module": "pytest", "arguments": [], "import_roots": []}
)


@pytest.fixture
def standby() -> Iterator[Standby]:
    made = Standby()
    yield made
    made.close()


def answered(standby: Standby | None, tmp_path: Path, files: dict[str, str] | None = None) -> GpuResult:
    return execute(HOST, REQUEST, files or {}, BlobStore(str(tmp_path)), lambda: False, standby)


def waiting(standby: Standby) -> standbys.WaitingRunner:
    assert standby._waiting is not None
    return standby._waiting


def is_gone(pid: int, within_s: float = 20.0) -> bool:
    deadline = time.monotonic() + within_s
    while Path(f"/proc/{pid}/exe").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not Path(f"/proc/{pid}/exe").exists()


def test_the_runner_that_waits_answers_one_request_and_ends(standby: Standby, tmp_path: Path) -> None:
    standby.prepare(HOST)
    runner = waiting(standby)
    standby.prepare(HOST)
    assert waiting(standby) is runner
    result = answered(standby, tmp_path)
    assert "no tarball 'none.tar.gz' next to the request" in (result.error or "")
    assert runner.child.returncode == 0
    assert not runner.scratch.exists()
    assert standby.take(HOST) is None
    assert answered(standby, tmp_path).error == result.error


def test_a_runner_that_was_killed_while_it_waited_is_not_asked(standby: Standby, tmp_path: Path) -> None:
    standby.prepare(HOST)
    runner = waiting(standby)
    os.kill(runner.child.pid, signal.SIGKILL)
    runner.child.wait()
    assert "no tarball" in (answered(standby, tmp_path).error or "")
    assert not runner.scratch.exists()


def test_a_runner_of_an_older_version_or_of_another_host_is_not_asked(
    standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:
    standby.prepare(HOST)
    first = waiting(standby)
    assert standby.take(Host("elsewhere", HOST.command, interpret=True)) is None
    standby.prepare(HOST)
    second = waiting(standby)
    monkeypatch.setattr(standbys, "version", lambda: (("torch/__init__.py", 1),))
    assert standby.take(HOST) is None
    for runner in (first, second):
        assert runner.child.returncode is not None
        assert not runner.scratch.exists()


def test_the_version_is_that_of_the_runner_and_of_what_it_imports() -> None:
    names = [name for name, _ in standbys.version()]
    assert any(name.endswith("gpu_runner/child/__main__.py") for name in names)
    assert {Path(name).name for name in names} >= {"torch", "triton", "session.py"}


def test_where_none_can_wait_the_log_says_why_and_requests_are_answered(
    standby: Standby, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(standbys, "scratch_folder", full)
    with capture_logs() as logs:
        standby.prepare(HOST)
    assert standby.take(HOST) is None
    assert [entry["event"] for entry in logs] == ["standby_not_started"]
    assert "No space left on device" in logs[0]["error"]
    assert "no tarball" in (answered(standby, tmp_path).error or "")


def test_a_request_that_cannot_be_laid_out_ends_the_runner_that_waits(standby: Standby, tmp_path: Path) -> None:
    standby.prepare(HOST)
    runner = waiting(standby)
    assert "no name for a file" in (answered(standby, tmp_path, {"../x": "0" * 64}).error or "")
    assert runner.child.returncode is not None
    assert not runner.scratch.exists()


def test_a_runner_that_is_never_asked_ends_when_its_input_is_closed(standby: Standby) -> None:
    standby.prepare(HOST)
    runner = waiting(standby)
    assert runner.child.stdin is not None
    runner.child.stdin.close()
    assert runner.child.wait(60) == 0


@pytest.mark.fault
def test_nothing_outlives_a_host_that_is_killed() -> None:
    source = (
        "import sys, time\nfrom workers.gpu_host.runner import Host\nfrom workers.gpu_host.standby import Standby\n"
        "standby = Standby()\n"
        "standby.prepare(Host('here', (sys.executable, '-m', 'gpu_runner'), interpret=True))\n"
        "print(standby._waiting.child.pid, standby._waiting.scratch, flush=True)\ntime.sleep(120)\n"
    )
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True, cwd=ROOT) as host:
        assert host.stdout is not None
        runner, folder = host.stdout.readline().split()
        deadline = time.monotonic() + 60
        while not (below := tree.descendants(int(runner))) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert below, "the runner has started no process to fork children from"
        host.kill()
    assert is_gone(int(runner))
    assert all(is_gone(pid, within_s=60) for pid in below)  # it looks between two imports
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.mark.parametrize("cores", [CORES_TO_SPARE - 1, CORES_TO_SPARE])
def test_a_host_keeps_the_next_runner_waiting_from_the_request_on_where_there_are_cores_to_spare(
    cores: int, local: World, standby: Standby, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def noted(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            order.append(what)
            return function(*arguments)

        return call

    monkeypatch.setattr(standby, "prepare", noted("the next", standby.prepare))
    monkeypatch.setattr(executing, "_run", noted("the request", executing._run))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(embedded, "STANDBY", standby)
    local.runtime.settings = local.runtime.settings.model_copy(update={"architecture": "sm_90"})
    results = ask(local, tmp_path, "target.write_text(json.dumps(result))")
    runner = tmp_path / "runner.py"
    told = "line = json.loads(sys.stdin.readline())\nsys.argv[1:] = ['--request', line['request'], '--result', line['result']]\n"
    runner.write_text(
        f"import json, sys\nif sys.argv[1] == '--standby':\n    {told.replace(chr(10), chr(10) + '    ')}\n{PROLOGUE}"
        "result['payload'] = {'stood_by': 'line' in globals()}\ntarget.write_text(json.dumps(result))"
    )
    embedded.drive()
    assert [result.payload for result in results] == [{"stood_by": False}]
    assert order == [*(["the next"] if cores >= CORES_TO_SPARE else []), "the request", "the next"]
    again = ask(local, tmp_path, key="comment/2")
    embedded.drive()
    assert [result.payload for result in again] == [{"stood_by": True}]
    assert waiting(standby).child.poll() is None


def test_a_host_without_a_gpu_keeps_no_runner_waiting(
    local: World, standby: Standby, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "STANDBY", standby)
    results = ask(local, tmp_path, "target.write_text(json.dumps(result))")
    embedded.drive()
    assert len(results) == 1
    assert standby._waiting is None
