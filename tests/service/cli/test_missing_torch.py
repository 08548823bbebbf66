"""The command line where only the base is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app, console
from tests.problems import problem_source
from tests.recorded.libraries import PLAIN
from tests.service.local.checkouts import checked_out


@pytest.mark.parametrize("command", ["compile", "verify", "create"])
def test_a_command_that_runs_kernels_names_what_to_install(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "find_spec", lambda name: None)
    problem = tmp_path / "reglu.py"
    problem.write_text(problem_source("reglu"))
    more = {"verify": [str(problem)], "create": ["--repo", str(checked_out(tmp_path / "library", PLAIN))]}
    ended = CliRunner().invoke(app, [command, str(problem), *more.get(command, [])])
    assert ended.exit_code == 3
    assert "pip install 'kernelsmith[gpu]'" in ended.stderr


@pytest.mark.parametrize("played", ["create", "optimize"])
def test_a_demo_that_runs_kernels_says_so_before_it_fetches_a_library(
    played: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "find_spec", lambda name: None)
    ended = CliRunner().invoke(app, ["demo", played, "--out", str(tmp_path / "out")])
    assert (ended.exit_code, list(tmp_path.iterdir())) == (3, [])
    assert "pip install 'kernelsmith[gpu]'" in ended.stderr
