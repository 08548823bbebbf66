"""Questions that are ended once others have been answered well enough."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from sqlalchemy import select

from gpu_runner.contracts import Action, DoctorRequest
from tests.workers.engine import choosing
from tests.workers.engine.choosing import HEARD, hosting, text_of, waits
from tests.workers.engine.scripted import USAGE, Scripted, ask_for, ledger, outcomes, script, set_to
from tests.workers.store import worlds
from tests.workers.store.worlds import World
from workers import artifacts, embedded, inbox, runtime
from workers.contracts import JobState
from workers.engine import at_once
from workers.engine.advance import advance
from workers.engine.protocol import StageContext, StageResult
from workers.models.protocol import Answer, ModelError, Question, Trouble, Usage
from workers.models.recording import Refusal, read_record, use_of
from workers.store.models import GpuWork, ModelAnswer, StageAttempt

SECOND = {"candidate-1": "not_needed", "candidate-2": "said to candidate 2", "candidate-3": "not_needed"}


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_once, "LOOK_S", 0.05)


def only(*prompt: str) -> Scripted:
    """Give a model that has its answers to some questions at once, and thinks about the others until it is ended."""

    def reply(question: Question, cancelled: Callable[[], bool]) -> Answer:
        text = text_of(question)
        return provider.answer(f"said to {text}") if text in prompt else waits(cancelled)

    provider = Scripted([reply] * 20)
    return provider


def output(world: World) -> dict[str, object]:
    with world.runtime.database.read() as session:
        return dict(session.scalars(select(StageAttempt.output)).one() or {})


def gpu_states(world: World) -> dict[str, str]:
    with world.runtime.database.read() as session:
        return {row.key: row.state for row in session.scalars(select(GpuWork).order_by(GpuWork.id))}


def test_one_that_is_proved_ends_those_that_are_still_asked(world: World) -> None:
    provider = only("candidate 2")
    job_id = script(world, provider, choosing.choosing)
    with hosting(world.runtime):
        advance(world.runtime, job_id)
    embedded.drive()
    assert world.job(job_id).state is JobState.waiting
    assert output(world) == {"told": SECOND, "chosen": "candidate-2"}
    # The runs after each pause had the same answers, and asked nobody.
    assert len(provider.asked) == 3
    assert sorted(str(it) for it in outcomes(world)) == ["answered", "cancelled", "cancelled"]
    charged = ledger(world)
    assert charged.count(("input_tokens", HEARD.input_tokens)) == charged.count(("output_tokens", 3)) == 2


def test_what_was_not_needed_is_kept_with_what_it_took(world: World) -> None:
    job_id = script(world, only("candidate 2"), choosing.choosing)
    with hosting(world.runtime):
        advance(world.runtime, job_id)
    kept = {artifact.name: artifact for artifact in world.job(job_id).artifacts}
    record = read_record(artifacts.get(kept["models/analyze-1/candidate-1.json"].digest))
    assert isinstance(record.outcome, Refusal)
    assert (record.outcome.trouble, record.outcome.usage, record.final) == (Trouble.not_needed, HEARD, True)
    assert [(tried.outcome, tried.usage) for tried in record.tried] == [("cancelled", HEARD)]
    told = [event.text for event in world.job(job_id).timeline if event.kind == "model_asked"]
    assert told.count("generate: not_needed, 10 tokens") == 2
    with world.runtime.database.read() as session:
        found = {row.key: row.answered for row in session.scalars(select(ModelAnswer))}
    assert found == {"candidate-1": False, "candidate-2": True, "candidate-3": False}


def test_without_a_host_that_works_meanwhile_all_are_answered(world: World) -> None:
    provider = Scripted()
    job_id = script(world, provider, choosing.choosing)
    embedded.drive()
    assert world.job(job_id).state is JobState.waiting
    assert output(world)["chosen"] == "candidate-1"
    assert outcomes(world) == ["answered"] * 3


def test_those_that_nobody_began_to_ask_cost_nothing(world: World) -> None:
    provider = only("candidate 2")
    job_id = script(world, provider, lambda context: choosing.choosing(context, 6))
    with hosting(world.runtime):
        advance(world.runtime, job_id)
    embedded.drive()
    told = output(world)["told"]
    assert isinstance(told, dict)
    assert list(told.values()).count("not_needed") == 5
    # Four are asked at once, and the first one's thread took up the next question.
    assert len(provider.asked) <= 5
    kept = [read_record(artifacts.get(it.digest)) for it in world.job(job_id).artifacts]
    assert len(kept) == 6
    use = use_of(kept, {})
    assert (use.total.questions, use.total.requests) == (6, len(provider.asked))


def test_an_answer_that_arrives_while_the_others_are_ended_is_kept(world: World) -> None:
    def reply(question: Question, cancelled: Callable[[], bool]) -> Answer:
        if text_of(question) != "candidate 2":
            with pytest.raises(ModelError):
                waits(cancelled)
        return provider.answer(f"said to {text_of(question)}")

    provider = Scripted([reply] * 3)
    job_id = script(world, provider, choosing.choosing)
    with hosting(world.runtime):
        advance(world.runtime, job_id)
    embedded.drive()
    assert world.job(job_id).state is JobState.waiting
    # It was paid for, and comes first in the order of the questions.
    assert output(world)["chosen"] == "candidate-1"
    assert outcomes(world) == ["answered"] * 3


def test_a_budget_without_room_for_one_more_does_not_cost_the_one_that_is_there(world: World) -> None:
    set_to(world, model_tokens_per_job=2 * USAGE.input_tokens)
    provider = only("candidate 1")

    def run(context: StageContext) -> StageResult:
        # Before the others: of five at once those that never end could be the ones that there is room for.
        context.ask("candidate-1", ask_for("candidate 1"))
        return choosing.choosing(context, 5)

    job_id = script(world, provider, run)
    with hosting(world.runtime):
        advance(world.runtime, job_id)
    embedded.drive()
    assert world.job(job_id).state is JobState.waiting
    told = output(world)["told"]
    assert isinstance(told, dict)
    assert list(told.values())[1:] == ["not_needed"] * 4
    assert len(provider.asked) < 5


def test_cancelling_the_job_is_another_thing(world: World) -> None:
    asked = threading.Barrier(3)

    def reply(_question: Question, cancelled: Callable[[], bool]) -> Answer:
        asked.wait(10)
        return waits(cancelled)

    job_id = script(world, Scripted([reply] * 2), lambda context: choosing.choosing(context, 2))
    worker = threading.Thread(target=advance, args=(world.runtime, job_id))
    worker.start()
    asked.wait(10)
    assert inbox.cancel(job_id, "mona")
    worker.join(20)
    assert world.job(job_id).state is JobState.cancelled
    assert (world.job(job_id).artifacts, outcomes(world)) == ((), ["cancelled"] * 2)
    with world.runtime.database.read() as session:
        assert session.scalars(select(ModelAnswer)).all() == []


def test_an_error_in_what_looks_ends_all_and_keeps_none_as_not_needed(world: World) -> None:
    class BrokeError(Exception):
        pass

    def breaks(_answered: Mapping[str, Answer | ModelError]) -> bool:
        raise BrokeError

    def run(context: StageContext) -> StageResult:
        context.ask_until({"a": ask_for("one"), "b": ask_for("two")}, breaks)
        raise AssertionError

    job_id = script(world, only("one"), run)
    advance(world.runtime, job_id)
    with world.runtime.database.read() as session:
        assert [row.key for row in session.scalars(select(ModelAnswer))] == ["a"]
    assert sorted(str(it) for it in outcomes(world)) == ["answered", "cancelled"]
    assert world.job(job_id).state is JobState.running


def test_enough_is_looked_at_before_anything_is_asked_again(world: World) -> None:
    looked: list[list[str]] = []

    def run(context: StageContext) -> StageResult:
        context.ask("candidate-2", ask_for("candidate 2"))

        def enough(answered: Mapping[str, Answer | ModelError]) -> bool:
            looked.append(list(answered))
            return True

        told = context.ask_until({f"candidate-{n}": ask_for(f"candidate {n}") for n in (1, 2, 3)}, enough)
        return StageResult({"told": [it.text if isinstance(it, Answer) else it.trouble.value for it in told.values()]})

    provider = Scripted()
    script(world, provider, run)
    embedded.drive()
    assert output(world) == {"told": ["not_needed", "answer 1", "not_needed"]}
    assert (looked, len(provider.asked)) == ([["candidate-2"]], 1)


def test_what_a_host_works_on_for_nobody_is_taken_back_with_the_stage(world: World) -> None:
    def run(context: StageContext) -> StageResult:
        begun = context.meanwhile("a", lambda: context.gpu("not needed", DoctorRequest(), Action.doctor))
        assert begun is None
        assert context.meanwhile("a", lambda: pytest.fail("nothing is answered yet")) is None
        return StageResult()

    job_id = script(world, Scripted(), run)
    advance(world.runtime, job_id)
    assert world.job(job_id).state is JobState.waiting
    assert gpu_states(world) == {"not needed": "cancelled"}
    assert [state for _, state in world.messages.gpu_requests] == ["any"]


def test_notes_of_what_is_tried_meanwhile_do_not_count(world: World) -> None:
    shown: list[str] = []

    def run(context: StageContext) -> StageResult:
        for _ in range(5):
            context.meanwhile("a", lambda: context.note("tried"))
        context.note("asking")
        shown.append(world.job(job_id).stages[-1].note)
        context.gpu("g", DoctorRequest(), Action.doctor)
        context.note("done")
        shown.append(world.job(job_id).stages[-1].note)
        return StageResult()

    job_id = script(world, Scripted(), run)
    embedded.drive()
    assert shown == ["asking", "asking", "done"]


def test_a_replay_has_the_same_answers_and_ends_nothing(tmp_path: Path) -> None:
    first = worlds.build(tmp_path / "first", None)
    job_id = script(first, only("candidate 2"), choosing.choosing)
    with hosting(first.runtime):
        advance(first.runtime, job_id)
    embedded.drive()
    said = output(first)
    assert embedded.record(job_id, tmp_path / "recording") == 3
    runtime.install(None)

    second = worlds.build(tmp_path / "second", None)
    again = script(second, Scripted(), choosing.choosing)
    embedded.answer_from(tmp_path / "recording")
    with hosting(second.runtime):
        advance(second.runtime, again)
    embedded.drive()
    assert (output(second), ledger(second)) == (said, [])
    assert said["told"] == SECOND
    runtime.install(None)


def test_what_was_heard_of_an_ended_answer_is_charged_and_where_nothing_was_the_most(world: World) -> None:
    def reply(question: Question, cancelled: Callable[[], bool]) -> Answer:
        text = text_of(question)
        if text == "candidate 1":
            return provider.answer("yes")
        return waits(cancelled, HEARD if text == "candidate 2" else Usage())

    provider = Scripted([reply] * 3)
    job_id = script(world, provider, choosing.choosing)
    with hosting(world.runtime):
        advance(world.runtime, job_id)
    charged = [amount for unit, amount in ledger(world) if unit == "output_tokens"]
    assert sorted(charged) == [HEARD.output_tokens, USAGE.output_tokens, 1000]
