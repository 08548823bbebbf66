"""The command line: one request in, one result out, whatever happens in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_runner import __main__ as runner
from gpu_runner.actions import ACTIONS
from gpu_runner.context import RunContext
from gpu_runner.contracts import Action, GpuRequest, GpuResult, Isolation, RunnerError, from_json, to_json


def write_request(folder: Path, **changes: object) -> Path:
    form = {
        "request_id": "r1",
        "action": "tests",
        "payload": {"tree": "none.tar.gz", "files": [], "module": "pytest", "arguments": []},
    }
    path = folder / "request.json"
    path.write_text(json.dumps(form | changes))
    return path


def read_result(folder: Path) -> GpuResult:
    return from_json(GpuResult, json.loads((folder / "out" / "result.json").read_text()))


def test_a_request_that_fails_still_gives_a_result(tmp_path: Path) -> None:
    code = runner.main(["--request", str(write_request(tmp_path)), "--result", str(tmp_path / "out")])
    result = read_result(tmp_path)
    assert code == 0
    assert (result.request_id, result.payload) == ("r1", None)
    assert "no tarball" in (result.error or "")


@pytest.mark.parametrize(
    "changes",
    [
        {"action": "format_disk"},
        {"payload": {"tree": 7}},
        {"payload": []},
        {"surprise": 1},
        {"limits": {"time_s": "long"}},
        {"require": ["chains"]},
    ],
)
def test_a_request_that_is_none_ends_in_exit_three(
    tmp_path: Path, changes: dict, capsys: pytest.CaptureFixture[str]
) -> None:
    code = runner.main(["--request", str(write_request(tmp_path, **changes)), "--result", str(tmp_path / "out")])
    assert code == 3
    assert "is no request" in capsys.readouterr().err
    assert not (tmp_path / "out" / "result.json").exists()


@pytest.mark.parametrize("content", ["", "{", "[" * 50_000, "null"])
def test_what_is_no_json_ends_in_exit_three(tmp_path: Path, content: str) -> None:
    (tmp_path / "request.json").write_text(content)
    assert runner.main(["--request", str(tmp_path / "request.json"), "--result", str(tmp_path / "out")]) == 3


def test_the_runner_as_a_process_captures_a_problem(tmp_path: Path) -> None:
    source = (
        "import torch\n\ndef reference(a, b):\n    return torch.relu(a) * b\n\n"
        'INPUTS = {"a": "T I", "b": "T I"}\nWORKLOADS = [{"T": 64, "I": 128}]\n'
    )
    path = write_request(tmp_path, action="capture", payload={"problem_source": source})
    root = Path(runner.__file__).parents[1]
    command = [sys.executable, "-m", "gpu_runner", "--request", str(path), "--result", str(tmp_path / "out")]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, timeout=120, check=False
    )
    result = read_result(tmp_path)
    assert done.returncode == 0, done.stderr
    assert result.error is None
    assert result.payload is not None
    assert result.payload["operators"] == ["le", "mul", "relu", "where"]
    assert Isolation.process in result.isolation


def test_an_unforeseen_fault_becomes_an_error_and_never_a_verdict(tmp_path: Path) -> None:
    def broken(_: RunContext) -> dict:
        raise KeyError("surprise")

    request = GpuRequest("r", Action.verify, {})
    result = runner.carried_out(request, broken, tmp_path)
    assert result.payload is None
    assert result.error is not None and result.error.startswith("KeyError: 'surprise' (test_main.py:")


def test_a_level_that_is_missing_is_an_error_of_the_environment(tmp_path: Path) -> None:
    def refused(_: RunContext) -> dict:
        raise RunnerError("this host cannot give the level namespaces")

    result = runner.carried_out(GpuRequest("r", Action.verify, {}), refused, tmp_path)
    assert "cannot give the level" in (result.error or "")


def test_a_result_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    runner.write_atomically(tmp_path / "deep" / "result.json", "{}")
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["result.json"]


def test_every_action_has_an_entry() -> None:
    assert set(ACTIONS) == set(Action)


def test_the_levels_of_an_action_are_those_that_held_in_every_child(tmp_path: Path) -> None:
    context = RunContext(tmp_path)
    assert context.levels() == ()
    context.isolation += [(Isolation.process, Isolation.landlock), (Isolation.process,)]
    assert context.levels() == (Isolation.process,)


def test_requests_survive_their_json_form() -> None:
    request = GpuRequest("r", Action.capture, {"problem_source": "x"}, require=(Isolation.landlock,))
    assert from_json(GpuRequest, json.loads(json.dumps(to_json(request)))) == request
