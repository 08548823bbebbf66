from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.cli.processes import size
from tests.workers.engine.fakes import request
from workers import embedded, inbox, runtime
from workers.environment import plain_environment
from workers.gpu_host import runner


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the data folder of an installation that had a job, with an old artifact and an old folder that nothing needs."""
    monkeypatch.setenv("KERNELSMITH_DATA_DIR", str(tmp_path / "state"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    embedded.configure(tmp_path / "state")
    inbox.submit(request())
    digest = runtime.current().blobs.put(b"x" * 3000)
    embedded.close()
    folder = tmp_path / f"{runner.PREFIX}left"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "file").write_bytes(b"y" * 5000)
    for path in (folder, tmp_path / "state" / "artifacts" / digest[:2] / digest):
        os.utime(path, (time.time() - 200_000, time.time() - 200_000))
    return tmp_path


def test_gc_says_what_it_removed_and_a_dry_run_removes_nothing(installation: Path) -> None:
    run = CliRunner()
    dry = run.invoke(app, ["gc", "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert dry.output.startswith("Would remove 1 artifact (2.9 KiB) and 1 leftover folder (")
    assert (installation / f"{runner.PREFIX}left").exists()
    done = run.invoke(app, ["gc", "--json"])
    told = json.loads(done.output.splitlines()[-1])  # the runner of tests has both streams in one
    assert (told["artifacts"], told["artifact_bytes"], len(told["folders"])) == (1, 3000, 1)
    assert not (installation / f"{runner.PREFIX}left").exists()
    again = run.invoke(app, ["gc"])
    assert "Removed 0 artifacts (0 bytes) and 0 leftover folders (0 bytes)." in again.output
    embedded.close()


def test_gc_prints_json_and_nothing_else(installation: Path) -> None:
    """As a process, which logs as a command does."""
    environment = plain_environment() | {
        "KERNELSMITH_DATA_DIR": str(installation / "state"),
        "TMPDIR": str(installation),
    }
    command = [sys.executable, "-m", "service.cli", "gc", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["artifacts"] == 1
    assert "collected" not in done.stderr, "what an operator has to know alone"


def test_gc_says_which_setting_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_KEEP_ARTIFACTS_DAYS", "-1")
    refused = CliRunner().invoke(app, ["gc"])
    assert refused.exit_code == 2
    assert "KERNELSMITH_KEEP_ARTIFACTS_DAYS" in refused.output


def test_gc_says_what_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DATABASE_URL", f"sqlite:////{tmp_path}/file")
    (tmp_path / "file").write_bytes(b"this is no database" * 100)
    runtime.install(None)
    down = CliRunner().invoke(app, ["gc"])
    embedded.close()
    assert down.exit_code == 3, down.output
    assert "cannot be reached" in down.output


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3.0 TiB")],
)
def test_sizes_are_told_as_people_read_them(count: int, text: str) -> None:
    assert size(count) == text
