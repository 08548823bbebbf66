"""What a runner said in a recorded job, and would not say again, is given again; all else is asked of it anew."""

from __future__ import annotations

import sys
from pathlib import Path

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    CandidateSource,
    SourceFile,
    Status,
    TuneRequest,
    VerifyRequest,
)
from tests.workers.engine.scripted import Scripted, ask_for, script
from tests.workers.engine.test_gpu_host import PROLOGUE
from tests.workers.store import worlds
from tests.workers.store.worlds import World
from workers import embedded, runtime
from workers.engine.protocol import StageContext, StageResult

# Counts its answers, so that no two are alike. The candidate's name says how it speaks of it.
RUNNER = """
counted = Path({desk!r}, "counted")
number = len(counted.read_text()) if counted.exists() else 0
counted.write_text("x" * (number + 1))
said = request["payload"]["problem_source"]
kind = {{
    "benchmark": {{"predicted": said != "measured"}},
    "tune": {{"architecture": "sm_90" if said == "measured" else None}},
    "verify": {{"status": said}},
}}
result["payload"] = kind[request["action"]] | {{"number": number}}
target.write_text(json.dumps(result))
"""
FORM = CandidateSource((SourceFile("candidate.py", "pass"),))
ASKED: tuple[tuple[str, Action, BenchmarkRequest | TuneRequest | VerifyRequest], ...] = (
    ("timed", Action.benchmark, BenchmarkRequest("measured", FORM)),
    ("predicted", Action.benchmark, BenchmarkRequest("predicted", FORM)),
    ("timed-again", Action.benchmark, BenchmarkRequest("measured", FORM)),
    ("tuned", Action.tune, TuneRequest("measured", FORM, ())),
    ("untuned", Action.tune, TuneRequest("interpreted", FORM, ())),
    ("proved", Action.verify, VerifyRequest(Status.passed.value, FORM)),
    ("wrong", Action.verify, VerifyRequest(Status.incorrect_values.value, FORM)),
)
GIVEN_AGAIN = {"timed", "timed-again", "tuned", "wrong"}


def numbers(world: World, desk: Path, recording: Path | None = None) -> tuple[str, dict[str, int]]:
    """Carry a job out that asks the runner of this and that, and give its id with the numbers of the answers."""
    seen: dict[str, int] = {}

    def run(context: StageContext) -> StageResult:
        context.ask("a", ask_for("softmax"))
        for key, action, asked in ASKED:
            result = context.gpu(key, asked, action)
            seen[key] = (result.payload or {})["number"]
        return StageResult()

    desk.mkdir()
    (desk / "runner.py").write_text(PROLOGUE + RUNNER.format(desk=str(desk)))
    world.runtime.runner_command = (sys.executable, str(desk / "runner.py"))
    job_id = script(world, Scripted(), run)
    if recording is not None:
        embedded.answer_from(recording)
    embedded.drive()
    return job_id, seen


def test_what_was_measured_or_failed_is_given_again_and_all_else_is_asked_anew(tmp_path: Path) -> None:
    first = worlds.build(tmp_path / "first", None)
    job_id, said = numbers(first, tmp_path / "desk")
    assert list(said.values()) == list(range(len(ASKED)))
    embedded.record(job_id, tmp_path / "recording")
    assert embedded.recorded(tmp_path / "recording").measured == 3
    runtime.install(None)

    second = worlds.build(tmp_path / "second", None)
    desk = tmp_path / "other"
    _, again = numbers(second, desk, tmp_path / "recording")
    assert {key: again[key] for key in GIVEN_AGAIN} == {key: said[key] for key in GIVEN_AGAIN}
    assert len((desk / "counted").read_text()) == len(ASKED) - len(GIVEN_AGAIN)
    runtime.install(None)


def test_recording_without_questions_has_no_model_to_ask(tmp_path: Path) -> None:
    first = worlds.build(tmp_path / "first", None)
    job_id = script(first, Scripted(), lambda _context: None)
    embedded.drive()
    embedded.record(job_id, tmp_path / "recording")
    runtime.install(None)

    found: list[bool] = []
    second = worlds.build(tmp_path / "second", None)
    script(second, Scripted(), lambda context: found.append(context.has_models))
    embedded.answer_from(tmp_path / "recording")
    embedded.drive()
    assert found == [False]
    runtime.install(None)
