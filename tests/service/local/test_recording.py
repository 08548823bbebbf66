"""What a recording took, by the command: from the files alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from service.cli import app
from tests.workers.models.test_recording_use import ASKED, REPAIRED
from workers.models.recording import Recording, write_record


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "recording.tar.gz"
    Recording((ASKED, REPAIRED)).write(path)
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["recording", *(str(argument) for argument in arguments)])


def test_a_recording_tells_what_it_took(recording: Path) -> None:
    told = run(recording)
    assert told.exit_code == 0, told.output
    totals = next(line.split() for line in told.stdout.splitlines() if line.startswith("all"))
    assert totals[:8] == ["all", "2", "3", "11", "3", "4", "22", "4.0"]


def test_prices_of_the_settings_make_money_of_tokens(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    price = {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}
    monkeypatch.setenv("KERNELSMITH_MODEL_PRICES", json.dumps({"model-2": price}))
    form = json.loads(run(recording, "--json").stdout)
    assert [it["micro_dollars"] for question in form["questions"] for it in question["requests"]] == [None, 5, 330]
    assert form["total"]["micro_dollars"] == 335


def test_the_record_of_one_question_tells_its_own(tmp_path: Path) -> None:
    (tmp_path / "candidate-1.json").write_bytes(write_record(REPAIRED))
    form = json.loads(run(tmp_path / "candidate-1.json", "--json").stdout)
    assert [(name, each["output_tokens"]) for name, each in form["purposes"]] == [("repair", 20)]
    assert form["total"]["questions"] == 1


def test_a_file_that_is_no_recording_is_refused_with_a_fix(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    told = run(tmp_path / "notes.txt")
    assert told.exit_code == 2
    assert "it is no archive that holds a recording.jsonl" in " ".join(told.output.split())
    assert "Give the folder or the archive that `--record` wrote" in told.output
    assert told.stdout == ""


def test_a_setting_that_cannot_be_used_is_the_environments_fault(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELSMITH_MODEL_PRICES", '{"model-2": {"input": -1}}')
    told = run(recording)
    assert told.exit_code == 3
    assert "KERNELSMITH_MODEL_PRICES" in told.output
