"""A fused model on the command line: what it says, and with which exit code it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpu_runner.contracts import Action, Composed, Evidence, GpuResult, Status, Verdict
from service.cli import app
from tests.workers.fuse.models import MLP
from workers import byhand
from workers.contracts import AuthorName, Failure, FailureCode, UserFacingError
from workers.fuse import asking
from workers.fuse import run as fuse_run
from workers.fuse.run import Authors, FuseResult
from workers.gpu_host.execute import RunnerKilledError

SUMMARY: dict[str, Any] = {
    "bytes": 4096,
    "saved_bytes": 1024,
    "flops": 8,
    "operators": 3,
    "calls": 1,
    "left_to_torch": 2,
    "proved": ["add_norm_1a2b3c"],
    "stays_with_torch": {"gelu_mul_4d5e6f": "incorrect_values: It is off."},
    "cut_again": {"add_norm_7a8b9c": "unproved: It is never so."},
    "status": "passed",
    "why": None,
}
WRONG = Verdict(Status.incorrect_gradient, (Evidence("gradient", "It is off."),))


def fuse(monkeypatch: pytest.MonkeyPatch, folder: Path, answer: FuseResult | Failure, *options: str) -> Any:
    def answered(*_: object, **__: object) -> FuseResult:
        if isinstance(answer, Failure):
            raise UserFacingError(answer)
        return answer

    model = folder / "model.py"
    model.write_text("class Model: ...")
    monkeypatch.setattr(byhand, "fuse", answered)
    return CliRunner().invoke(app, ["fuse", str(model), "--out", str(folder / "run"), *options])


def test_a_proved_whole_names_its_parts_and_what_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = fuse(monkeypatch, tmp_path, FuseResult(Verdict(Status.passed), (), SUMMARY))
    assert result.exit_code == 0
    assert "- add_norm_1a2b3c: proved" in result.stdout
    assert "- gelu_mul_4d5e6f stays with torch: incorrect_values: It is off." in result.stdout
    assert "- add_norm_7a8b9c was cut again: unproved: It is never so." in result.stdout
    assert "Nothing was timed." in result.stdout


@pytest.mark.parametrize(
    ("options", "authors"),
    [
        ((), Authors(AuthorName.auto, AuthorName.auto, AuthorName.auto, 3)),
        (
            ("--extract-author", "llm", "--dispatch-author", "compiler", "--compose-author", "auto", "--rounds", "0"),
            Authors(AuthorName.llm, AuthorName.compiler, AuthorName.auto, 0),
        ),
    ],
)
def test_who_does_what_is_the_options(
    options: tuple[str, ...], authors: Authors, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Authors] = []
    monkeypatch.setattr(asking, "asker", lambda authors, *_, **__: asked.append(authors))
    monkeypatch.setattr(fuse_run, "fuse", lambda *_, **__: FuseResult(Verdict(Status.passed), (), SUMMARY))
    model = tmp_path / "model.py"
    model.write_text(MLP)
    result = CliRunner().invoke(app, ["fuse", str(model), "--out", str(tmp_path / "run"), *options])
    assert (result.exit_code, asked) == (0, [authors])


def test_a_part_whose_verdict_takes_more_memory_than_there_is_is_not_proved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def killed(*_: object, **__: object) -> GpuResult:
        raise RunnerKilledError(GpuResult("one", Action.verify, None, "the runner ended with exit code -9"))

    def verified(source: str, out: Path, tools: fuse_run.Tools, **_: object) -> FuseResult:
        verdict = tools.verify("problem", "text", "symbol")
        assert (verdict.status, verdict.evidence[0].message) == (
            Status.out_of_memory, "the runner ended with exit code -9",
        )  # fmt: skip
        with pytest.raises(RunnerKilledError):
            tools.judge("problem", "text", "symbol", Composed((), ()))
        return FuseResult(verdict, (), SUMMARY)

    monkeypatch.setattr(byhand, "execute", killed)
    monkeypatch.setattr(fuse_run, "fuse", verified)
    byhand.fuse(MLP, tmp_path, 1, lambda _: None)


def test_its_json_is_the_summary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = fuse(monkeypatch, tmp_path, FuseResult(Verdict(Status.passed), (), SUMMARY), "--json")
    assert json.loads(result.stdout) == SUMMARY


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (FuseResult(None, (), SUMMARY | {"proved": [], "status": "nothing to gain"}), 0),
        (FuseResult(None, (), SUMMARY | {"proved": [], "status": "nothing proved"}), 1),
        (FuseResult(WRONG, (), SUMMARY | {"status": "incorrect_gradient", "why": "incorrect_gradient: It is off."}), 1),
        (Failure(FailureCode.problem, "the model cannot be traced: it draws random numbers"), 2),
        (Failure(FailureCode.environment, "the runner could not capture"), 3),
    ],
)
def test_how_it_ended_is_the_exit_code(
    answer: FuseResult | Failure, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert fuse(monkeypatch, tmp_path, answer).exit_code == code
