"""A job that asked models, recorded and carried out again without them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.workers.engine.scripted import Scripted, ask_for, ledger, script, set_to, trouble
from tests.workers.store import worlds
from tests.workers.store.worlds import World
from workers import embedded, runtime
from workers.contracts import JobState
from workers.engine.protocol import StageContext, StageResult
from workers.models.protocol import Answer, ModelError, Question, Trouble, Usage
from workers.store.models import StageAttempt


def searching(context: StageContext) -> StageResult:
    """Ask for several candidates at once, the same question twice among them, and repair the first that there is."""
    questions = {f"try/{number}": ask_for(f"candidate {number // 2}", temperature=number // 2) for number in range(6)}
    tried = context.ask_all(questions)
    told = {key: it.text if isinstance(it, Answer) else it.trouble.value for key, it in tried.items()}
    first = next(it for it in tried.values() if isinstance(it, Answer))
    repaired = context.ask("repair", ask_for(f"repair {first.text}", "repair"))
    return StageResult({"tried": told, "repaired": repaired.text, "usage": repaired.usage.input_tokens})


def output(world: World) -> object:
    with world.runtime.database.read() as session:
        return session.scalars(select(StageAttempt.output)).one()


def test_replay_comes_to_the_same_and_takes_nothing(tmp_path: Path) -> None:
    first = worlds.build(tmp_path / "first", None)
    endings = {"candidate 0": [trouble(Trouble.refused)], "candidate 2": ["one", trouble(Trouble.overloaded, Usage())]}

    def reply(question: Question, _cancelled: Callable[[], bool]) -> Answer:
        text = question.messages[0].parts[0].text
        said = endings[text].pop(0) if endings.get(text) else f"said to {text}"
        if isinstance(said, ModelError):
            raise said
        return provider.answer(said)

    provider = Scripted([reply] * 7)
    job_id = script(first, provider, searching)
    embedded.drive()
    assert first.job(job_id).state is JobState.waiting
    said = output(first)
    # What was overloaded was told as that and is no part of the recording, so the replay asks for it in vain.
    assert embedded.record(job_id, tmp_path / "recording.tar.gz") == 6
    runtime.install(None)

    second = worlds.build(tmp_path / "second", None)
    again = script(second, Scripted(), searching)
    embedded.answer_from(tmp_path / "recording.tar.gz")
    set_to(second, model_tokens_per_job=0)
    embedded.drive()
    assert second.job(again).state is JobState.waiting
    replayed = output(second)
    assert isinstance(said, dict) and isinstance(replayed, dict)
    assert said["tried"].pop("try/5") == "overloaded"
    assert replayed["tried"].pop("try/5") == "rejected"
    assert said["tried"]["try/0"] == "refused"
    assert replayed == said
    assert ledger(second) == []
    runtime.install(None)


def test_replay_of_a_job_that_was_run_again_after_a_pause_is_the_same(local: World, tmp_path: Path) -> None:
    job_id = script(local, Scripted(), searching)
    embedded.drive()
    said = output(local)
    assert embedded.record(job_id, tmp_path / "recording") == 7
    other = worlds.build(tmp_path / "second", None)
    script(other, Scripted(), searching)
    embedded.answer_from(tmp_path / "recording")
    embedded.drive()
    assert output(other) == said


def test_question_that_was_not_recorded_fails_with_its_place(local: World, tmp_path: Path) -> None:
    job_id = script(local, Scripted(), searching)
    embedded.drive()
    embedded.record(job_id, tmp_path / "recording")
    told: list[str] = []

    def run(context: StageContext) -> StageResult:
        with pytest.raises(ModelError) as caught:
            context.ask("a", ask_for("candidate 0", temperature=0.5))
        told.append(str(caught.value))
        return StageResult()

    other = worlds.build(tmp_path / "second", None)
    script(other, Scripted(), run)
    embedded.answer_from(tmp_path / "recording")
    embedded.drive()
    assert told[0].endswith("differs first at temperature")


def test_recording_that_is_not_there_is_told(local: World, tmp_path: Path) -> None:
    with pytest.raises(embedded.RecordingError, match="there is no recording"):
        embedded.answer_from(tmp_path / "none")
