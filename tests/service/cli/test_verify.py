"""A verdict on the command line: its exit code, and its seed, by which a failure can be seen again."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gpu_runner.contracts import Action, GpuRequest, Status, Verdict, VerifyRequest, from_json, to_json
from service.cli import app
from service.report.verdicts import STATUS_WORDS
from tests.recorded.libraries import REGLU
from tests.workers.stages.creating import WRONG
from workers import byhand

SEED = "0123456789abcdef0123456789abcdef"
ENTRY = "\n\ndef candidate(a, b):\n    return ReGLUFunction.apply(a, b)\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    problem, candidate = tmp_path / "problem.py", tmp_path / "candidate.py"
    problem.write_text(REGLU)
    candidate.write_text(WRONG + ENTRY)
    return str(problem), str(candidate)


def verify(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["verify", *arguments])


@pytest.mark.slow
@pytest.mark.long  # in `make test` the seed's way to the runner, below
def test_a_failing_verdict_is_repeated_by_the_seed_that_it_shows(files: tuple[str, str]) -> None:
    first = verify(*files, "--json")
    shown = json.loads(first.stdout)
    assert (first.exit_code, shown["status"], shown["repeated"]) == (1, "incorrect_gradient", False)
    again = json.loads(verify(*files, "--json", "--seed", shown["seed"]).stdout)
    assert again["repeated"]
    assert [again[name] for name in ("seed", "evidence", "checks")] == [
        shown[name] for name in ("seed", "evidence", "checks")
    ]


@pytest.mark.parametrize("seed", ["7", "", "g" * 32, "0" * 33])
def test_what_is_no_seed_is_refused_before_anything_runs(files: tuple[str, str], seed: str) -> None:
    done = verify(*files, "--seed", seed)
    assert done.exit_code == 2
    assert "32 hexadecimal digits" in done.output


def test_the_seed_is_on_the_runners_command_line_and_in_no_request(
    files: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    def execute(host: Any, request: GpuRequest, *_: object) -> Any:
        asked.append((host.command, to_json(request)))
        raise KeyboardInterrupt

    monkeypatch.setattr(byhand, "execute", execute)
    verify(*files, "--seed", SEED)
    ((command, request),) = asked
    assert command[-2:] == ("--seed", SEED)
    assert SEED not in json.dumps(request)


def test_no_job_can_ask_for_a_seed() -> None:
    source = {"files": [], "module": "candidate", "symbol": "candidate"}
    form = {"problem_source": "", "candidate": source}
    assert from_json(VerifyRequest, form) is not None
    with pytest.raises(ValueError, match="seed"):
        from_json(VerifyRequest, form | {"seed": SEED})
    request = to_json(GpuRequest("r", Action.verify, form))
    with pytest.raises(ValueError, match="seed"):
        from_json(GpuRequest, request | {"seed": SEED})
    assert not [field.name for kind in (VerifyRequest, GpuRequest) for field in fields(kind) if "seed" in field.name]


@pytest.mark.parametrize("status", Status)
def test_every_status_has_words_and_all_but_passed_end_in_one(
    files: tuple[str, str], status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = type("Answer", (), {"verdict": lambda _: Verdict(status)})
    monkeypatch.setattr(byhand, "verify", lambda *_: answer())
    done = verify(*files)
    assert done.exit_code == (0 if status is Status.passed else 1)
    assert STATUS_WORDS[status] in done.output
