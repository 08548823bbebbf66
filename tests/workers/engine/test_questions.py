from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pytest
from sqlalchemy import select

from gpu_runner.contracts import Action, DoctorRequest
from tests.workers.engine.scripted import USAGE, Scripted, ask_for, ledger, outcomes, script, set_to, trouble
from tests.workers.store.worlds import World
from workers import artifacts, embedded, inbox
from workers.contracts import Failure, FailureCode, JobState, UserFacingError
from workers.engine.advance import advance
from workers.engine.protocol import StageContext
from workers.models.ledger import Models, Price
from workers.models.protocol import Answer, ModelError, Question, Trouble, Usage
from workers.models.recording import read_record
from workers.store.models import StageAttempt

PRICES = {"model-1": Price(input=3, output=15, cache_read=0.3, cache_write=3.75)}
COST = 3000 + 3000 + 15 + 38  # the last one is 37.5, rounded up with the sum
TAKEN = [
    ("input_tokens", 1000),
    ("output_tokens", 200),
    ("cache_read_tokens", 50),
    ("cache_written_tokens", 10),
]


def test_stage_run_again_has_the_same_answer_and_asks_nobody(world: World) -> None:
    provider = Scripted()
    seen: list[Answer] = []

    def run(context: StageContext) -> None:
        seen.append(context.ask("first", ask_for("softmax")))
        context.gpu("g", DoctorRequest(), Action.doctor)
        seen.append(context.ask("second", ask_for("softmax")))
        context.gpu("h", DoctorRequest(), Action.doctor)

    job_id = script(world, provider, run)
    embedded.drive()
    assert world.job(job_id).state is JobState.waiting
    assert [answer.text for answer in seen] == ["answer 1", "answer 1", "answer 2", "answer 1", "answer 2"]
    assert len(provider.asked) == 2
    assert ledger(world) == TAKEN * 2


def test_cost_is_written_down_with_the_answer(world: World) -> None:
    set_to(world, model_prices=PRICES)
    script(world, Scripted(), lambda context: context.ask("a", ask_for("softmax")) and None)
    embedded.drive()
    assert ledger(world) == [*TAKEN, ("micro_dollars", COST)]


def test_question_and_answer_are_an_artifact_with_what_they_took(world: World) -> None:
    set_to(world, model_prices=PRICES)
    provider = Scripted([lambda question, _: provider.answer("text", {"files": {"a.py": "x = 1\n"}})])
    question = ask_for("softmax é \ud800 \x00")
    job_id = script(world, provider, lambda context: context.ask("try/1", question) and None)
    embedded.drive()
    (artifact,) = world.job(job_id).artifacts
    assert (artifact.name, artifact.media_type) == ("models/analyze-1/try/1.json", "application/json")
    record = read_record(artifacts.get(artifact.digest))
    assert record.question == question
    assert record.result() == provider.answer("text", {"files": {"a.py": "x = 1\n"}})
    (tried,) = record.tried
    assert (tried.provider, tried.model, tried.outcome) == ("scripted", "model-1", "answered")
    assert (tried.usage, tried.micro_dollars) == (USAGE, COST)
    told = [event.text for event in world.job(job_id).timeline if event.kind == "model_asked"]
    assert told == ["generate: answered by scripted, 1,260 tokens, $0.006053"]


@pytest.mark.parametrize("kind", [Trouble.refused, Trouble.too_long, Trouble.malformed, Trouble.truncated])
def test_final_trouble_is_kept_and_charged(world: World, kind: Trouble) -> None:
    provider = Scripted([trouble(kind)])
    seen: list[str] = []

    def run(context: StageContext) -> None:
        with pytest.raises(ModelError) as caught:
            context.ask("a", ask_for("softmax"))
        seen.append(f"{caught.value.trouble.value} {caught.value} {caught.value.usage.output_tokens}")
        context.gpu("g", DoctorRequest(), Action.doctor)

    script(world, provider, run)
    embedded.drive()
    assert seen == [f"{kind.value} the provider said {kind.value} 200"] * 2
    assert len(provider.asked) == 1
    assert (ledger(world), outcomes(world)) == (TAKEN, [kind.value])


@pytest.mark.parametrize("kind", [Trouble.overloaded, Trouble.unreachable, Trouble.unauthorised, Trouble.rejected])
def test_trouble_that_may_be_gone_is_not_kept(world: World, kind: Trouble) -> None:
    provider = Scripted([trouble(kind, Usage())])
    seen: list[str] = []

    def run(context: StageContext) -> None:
        try:
            seen.append(context.ask("a", ask_for("softmax")).text)
        except ModelError as error:
            seen.append(error.trouble.value)
        context.gpu("g", DoctorRequest(), Action.doctor)

    job_id = script(world, provider, run)
    embedded.drive()
    assert seen == [kind.value, "answer 2"]
    assert (ledger(world), outcomes(world)) == (TAKEN, [kind.value, "answered"])
    (artifact,) = world.job(job_id).artifacts
    tried = read_record(artifacts.get(artifact.digest)).tried
    assert [item.outcome for item in tried] == [kind.value, "answered"]


def test_error_between_the_answer_and_its_keeping_is_charged_twice(world: World) -> None:
    class DiedError(BaseException):
        pass

    deaths = ["model_answered"]

    def die(name: str) -> None:
        if name in deaths:
            deaths.remove(name)
            raise DiedError

    provider = Scripted()
    texts: list[str] = []
    job_id = script(world, provider, lambda context: texts.append(context.ask("a", ask_for("softmax")).text))
    world.runtime.at_boundary = die
    with pytest.raises(DiedError):
        advance(world.runtime, job_id)
    world.clock.advance(61)
    embedded.drive()
    assert texts == ["answer 2"]
    assert outcomes(world) == ["answered", "answered"]
    assert ledger(world) == TAKEN * 2


def test_cancelled_job_ends_the_request_and_pays_what_it_took(world: World) -> None:
    answering, ended = threading.Event(), threading.Event()

    def think(_question: Question, cancelled: Callable[[], bool]) -> Answer:
        answering.set()
        until = time.monotonic() + 10
        while not cancelled():
            assert time.monotonic() < until
            time.sleep(0.02)
        ended.set()
        raise trouble(Trouble.overdue, Usage(input_tokens=7))

    provider = Scripted([think])
    job_id = script(world, provider, lambda context: context.ask("a", ask_for("softmax")) and None)
    worker = threading.Thread(target=advance, args=(world.runtime, job_id))
    worker.start()
    assert answering.wait(10)
    assert inbox.cancel(job_id, "mona")
    worker.join(20)
    assert ended.is_set()
    assert world.job(job_id).state is JobState.cancelled
    assert world.job(job_id).artifacts == ()
    assert ledger(world) == [("input_tokens", 7)]


def test_lease_is_kept_while_a_model_thinks(world: World) -> None:
    set_to(world, lease_s=0.6)
    taken: list[bool] = []

    def think(_question: Question, cancelled: Callable[[], bool]) -> Answer:
        for _ in range(4):
            world.clock.advance(0.5)
            until = time.monotonic() + 10
            while lease_until(world) < world.clock() + 0.5:
                assert time.monotonic() < until
                time.sleep(0.02)
            taken.append(advance(world.runtime, job_id))
        assert not cancelled()
        return provider.answer("at last")

    provider = Scripted([think])
    texts: list[str] = []
    job_id = script(world, provider, lambda context: texts.append(context.ask("a", ask_for("softmax")).text))
    advance(world.runtime, job_id)
    assert (taken, texts) == ([False] * 4, ["at last"])
    assert outcomes(world) == ["answered"]


def lease_until(world: World) -> float:
    with world.runtime.database.read() as session:
        return session.scalars(select(StageAttempt.lease_until)).one() or 0.0


def test_answer_to_a_run_that_lost_its_lease_is_paid_and_not_kept(world: World) -> None:
    provider = Scripted()

    def late(_question: Question, _cancelled: Callable[[], bool]) -> Answer:
        world.clock.advance(61)
        assert advance(world.runtime, job_id) is True
        return provider.answer("late")

    provider.replies = [late]
    texts: list[str] = []
    job_id = script(world, provider, lambda context: texts.append(context.ask("a", ask_for("softmax")).text))
    advance(world.runtime, job_id)
    assert texts == ["answer 2"]
    # The second worker found the first one's request lost, and wrote down the most that it can have taken.
    assert outcomes(world) == ["lost", "answered"]
    assert ledger(world)[1] == ("output_tokens", 1000)
    assert ledger(world)[2:] == TAKEN


def test_many_are_asked_at_once_and_each_is_kept_as_it_arrives(world: World) -> None:
    together = threading.Barrier(4)

    def meet(question: Question, _cancelled: Callable[[], bool]) -> Answer:
        together.wait(10)
        return provider.answer(question.messages[0].parts[0].text)

    provider = Scripted([meet] * 4 + [trouble(Trouble.refused), trouble(Trouble.overloaded)])
    found: list[dict[str, str]] = []

    def run(context: StageContext) -> None:
        answers = context.ask_all({f"try/{n}": ask_for(f"question {n}") for n in range(6)})
        found.append({key: it.text if isinstance(it, Answer) else it.trouble.value for key, it in answers.items()})
        context.gpu("g", DoctorRequest(), Action.doctor)

    script(world, provider, run)
    embedded.drive()
    first, second = found
    assert list(first) == [f"try/{n}" for n in range(6)]
    assert {first[f"try/{n}"] for n in range(4)} == {f"question {n}" for n in range(4)}
    assert sorted((first["try/4"], first["try/5"])) == ["overloaded", "refused"]
    # Run again, only the one that was overloaded is asked again.
    assert len(provider.asked) == 7
    assert {key: text for key, text in second.items() if second[key] != first[key]} in (
        {"try/4": "answer 7"},
        {"try/5": "answer 7"},
    )


def test_same_question_under_several_keys_is_asked_in_their_order(world: World) -> None:
    found: list[list[str]] = []

    def run(context: StageContext) -> None:
        answers = context.ask_all({name: ask_for("softmax") for name in "abc"})
        found.append([it.text for it in answers.values() if isinstance(it, Answer)])

    script(world, Scripted(), run)
    embedded.drive()
    assert found == [["answer 1", "answer 2", "answer 3"]]


def test_error_in_one_of_many_ends_the_others(world: World) -> None:
    class BrokeError(Exception):
        pass

    def breaks(_question: Question, _cancelled: Callable[[], bool]) -> Answer:
        raise BrokeError

    def waits(_question: Question, cancelled: Callable[[], bool]) -> Answer:
        until = time.monotonic() + 10
        while not cancelled():
            assert time.monotonic() < until
            time.sleep(0.02)
        raise trouble(Trouble.refused, Usage(output_tokens=3))

    seen: list[type[BaseException]] = []

    def run(context: StageContext) -> None:
        try:
            context.ask_all({"a": ask_for("one"), "b": ask_for("two")})
        except BrokeError as error:
            seen.append(type(error))
            raise

    job_id = script(world, Scripted([waits, breaks]), run)
    advance(world.runtime, job_id)
    assert seen == [BrokeError]
    # What was cut off from here says nothing about its question, so it is asked again.
    embedded_answers = Scripted()
    world.runtime.models = lambda: Models((embedded_answers,))
    world.clock.advance(3600)
    embedded.drive()
    assert len(embedded_answers.asked) == 2


@pytest.mark.parametrize(
    ("code", "asked_again"),
    [(FailureCode.environment, False), (FailureCode.budget, False), (FailureCode.verdict, True)],
)
def test_retry_has_the_answers_that_were_not_to_blame(world: World, code: FailureCode, asked_again: bool) -> None:
    provider = Scripted()
    fails = [True, True]

    def run(context: StageContext) -> None:
        context.ask("a", ask_for("softmax"))
        if fails:
            fails.pop()
            raise UserFacingError(Failure(code, "it did not work"))

    job_id = script(world, provider, run)
    embedded.drive()
    for _ in range(2):
        assert world.job(job_id).state is JobState.failed
        assert inbox.retry(job_id, "mona")
        embedded.drive()
    assert world.job(job_id).state is JobState.waiting
    assert len(provider.asked) == (3 if asked_again else 1)
    names = [artifact.name for artifact in world.job(job_id).artifacts]
    assert names == [f"models/analyze-{attempt}/a.json" for attempt in (1, 2, 3)]


def test_retry_asks_another_question_anew(world: World) -> None:
    provider = Scripted()
    texts = ["softmax", "layer_norm"]

    def run(context: StageContext) -> None:
        context.ask("a", ask_for(texts[context.attempt - 1]))
        if context.attempt == 1:
            raise UserFacingError(Failure(FailureCode.environment, "the host is gone"))

    job_id = script(world, provider, run)
    embedded.drive()
    assert inbox.retry(job_id, "mona")
    embedded.drive()
    assert len(provider.asked) == 2


def test_bot_without_a_model_says_so(world: World) -> None:
    job_id = script(world, Scripted(), lambda context: context.ask("a", ask_for("softmax")) and None)
    world.runtime.models = Models
    embedded.drive()
    failure = world.job(job_id).failure
    assert failure is not None
    assert (failure.code, "--author compiler" in (failure.fix or "")) == (FailureCode.model, True)


def test_secrets_are_taken_out_before_anything_is_sent_or_kept(world: World) -> None:
    provider = Scripted()

    def redact(question: Question) -> Question:
        return ask_for(question.messages[0].parts[0].text.replace("hunter2", "***"))

    job_id = script(world, provider, lambda context: context.ask("a", ask_for("hunter2")) and None)
    world.runtime.models = lambda: Models((provider,), prepare=redact)
    embedded.drive()
    assert [question.messages[0].parts[0].text for question in provider.asked] == ["***"]
    (artifact,) = world.job(job_id).artifacts
    assert json.loads(artifacts.get(artifact.digest))["question"]["messages"][0]["parts"][0]["text"] == "***"
