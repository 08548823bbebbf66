"""Budgets as a job meets them, with the ledger in the database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.workers.engine.fakes import DiedError, request
from tests.workers.engine.scripted import USAGE, Scripted, ask_for, ledger, outcomes, script, set_to, trouble
from tests.workers.store.worlds import World
from workers import embedded, inbox
from workers.contracts import FailureCode, JobState, Origin
from workers.engine.advance import advance
from workers.engine.protocol import StageContext
from workers.models.ledger import BudgetUnit, Models, Price, most_of
from workers.models.protocol import Answer, ModelError, Question, Trouble, Usage
from workers.upkeep import reconcile

TOOK = 1260  # tokens of one answer
READ = most_of(ask_for("softmax"), None).input_tokens
MOST, LIKELY = READ + 1000, READ + 250
DAY_S = 86_400


def asking(context: StageContext) -> None:
    context.ask("a", ask_for("softmax"))


def another(
    world: World, key: str, person: str = "mona", repository: str = "acme/kernels", installation: int | None = None
) -> str:
    origin = Origin(repository, 7, person, comment_id=11, installation_id=installation)
    job_id = inbox.submit(request(key, origin=origin)).job_id
    embedded.drive()
    return job_id


def message_of(world: World, job_id: str) -> str:
    failure = world.job(job_id).failure
    assert failure is not None
    assert failure.code is FailureCode.budget
    return f"{failure.message}. {failure.fix}"


@pytest.mark.parametrize(("limit", "output"), [(MOST, 1000), (MOST - 1, 999), (LIKELY, 250), (LIKELY - 1, None)])
def test_answer_is_limited_to_what_is_left_as_long_as_that_is_likely_to_do(
    world: World, limit: int, output: int | None
) -> None:
    set_to(world, model_tokens_per_job=limit)
    provider = Scripted()
    job_id = script(world, provider, asking)
    embedded.drive()
    assert world.job(job_id).state is (JobState.failed if output is None else JobState.waiting)
    assert [question.most_tokens for question in provider.asked] == ([] if output is None else [output])


@pytest.mark.parametrize("thinking", [0, 1500, 3000])
def test_no_limited_answer_can_pass_the_budget(world: World, thinking: int) -> None:
    asked = ask_for("softmax", thinking_tokens=thinking)
    for limit in range(most_of(asked, None).input_tokens + 1000, MOST + thinking, 97):
        set_to(world, model_tokens_per_job=limit)
        provider = Scripted()
        script(world, provider, lambda context: context.ask("a", asked) and None, f"comment/{limit}")
        embedded.drive()
        for sent in provider.asked:
            assert most_of(sent, None).of(BudgetUnit.tokens) <= limit
            assert sent.thinking_tokens == 0 or sent.thinking_tokens >= 1024


def test_budget_of_a_job_says_what_was_used_and_what_to_do(local: World) -> None:
    set_to(local, model_tokens_per_job=1500)

    def run(context: StageContext) -> None:
        context.ask("a", ask_for("softmax"))
        context.ask("b", ask_for("softmax"))

    job_id = script(local, Scripted(), run)
    embedded.drive()
    assert message_of(local, job_id) == (
        "the model budget of this job is reached: 1,260 tokens of 1,500 tokens are used, and the next request is likely to take "
        f"{LIKELY:,} tokens. A job's budget does not renew. An operator can raise `KERNELSMITH_MODEL_TOKENS_PER_JOB`, "
        "then `/kernel retry` goes on; a new command with `--author compiler` asks no model."
    )


def test_budget_in_dollars_counts_what_the_prices_say(local: World) -> None:
    prices = {"scripted/model-1": Price(input=1000, output=2000, cache_read=0, cache_write=0)}
    # Of $2.01 that the first one can cost $0.51 is likely, and $1.40 is what it costs.
    set_to(local, model_prices=prices, model_dollars_per_person_day=1.9)
    job_id = script(local, Scripted(), asking)
    embedded.drive()
    assert local.job(job_id).state is JobState.waiting
    assert ("micro_dollars", 1_400_000) in ledger(local)
    assert message_of(local, another(local, "comment/2")) == (
        "the model budget of mona for today is reached: $1.40 of $1.90 are used, and the next request is likely to take "
        "$0.51. It renews at 2027-01-16 00:00 UTC, then `/kernel retry` goes on. An operator can raise "
        "`KERNELSMITH_MODEL_DOLLARS_PER_PERSON_DAY`; a new command with `--author compiler` asks no model."
    )


@pytest.mark.parametrize(
    ("scope", "others", "own"),
    [
        ("person", {"person": "hubot"}, {"repository": "acme/other"}),
        ("repository", {"repository": "acme/other"}, {"person": "hubot"}),
        ("installation", {"installation": 5}, {"person": "hubot", "repository": "acme/other"}),
    ],
)
def test_budget_of_a_day_is_its_own_and_renews_at_midnight(
    world: World, scope: str, others: dict[str, Any], own: dict[str, Any]
) -> None:
    set_to(world, **{f"model_tokens_per_{scope}_day": TOOK + LIKELY - 1})
    script(world, Scripted(), asking)
    embedded.drive()
    refused = another(world, "own", **own)
    assert world.job(refused).state is JobState.failed
    assert f"KERNELSMITH_MODEL_TOKENS_PER_{scope.upper()}_DAY" in message_of(world, refused)
    assert world.job(another(world, "others", **others)).state is JobState.waiting
    world.clock.advance(DAY_S - world.clock() % DAY_S - 1)
    assert inbox.retry(refused, "mona")
    embedded.drive()
    assert world.job(refused).state is JobState.failed
    world.clock.advance(1)
    assert inbox.retry(refused, "mona")
    embedded.drive()
    assert world.job(refused).state is JobState.waiting


def test_budget_of_a_job_does_not_renew(local: World) -> None:
    set_to(local, model_tokens_per_job=TOOK)

    def run(context: StageContext) -> None:
        context.ask("a", ask_for("softmax"))
        context.ask("b", ask_for("layer_norm"))

    job_id = script(local, Scripted(), run)
    embedded.drive()
    local.clock.advance(2 * DAY_S)
    assert inbox.retry(job_id, "mona")
    embedded.drive()
    assert local.job(job_id).state is JobState.failed
    set_to(local, model_tokens_per_job=2 * MOST + TOOK)
    assert inbox.retry(job_id, "mona")
    embedded.drive()
    assert local.job(job_id).state is JobState.waiting
    # The first answer was paid for once, over three attempts.
    assert outcomes(local) == ["answered", "answered"]


def test_failed_attempts_that_took_tokens_count(local: World) -> None:
    set_to(local, model_tokens_per_job=LIKELY + TOOK - 1)

    def run(context: StageContext) -> None:
        context.ask_all({"a": ask_for("softmax")})
        context.ask("b", ask_for("softmax"))

    job_id = script(local, Scripted([trouble(Trouble.truncated, USAGE)]), run)
    embedded.drive()
    assert local.job(job_id).state is JobState.failed
    assert outcomes(local) == ["truncated"]


def test_workers_that_race_for_the_last_of_a_budget_wait_for_each_other_and_never_pass_it(world: World) -> None:
    set_to(world, model_tokens_per_repository_day=2 * MOST - 1)
    asked, go = threading.Semaphore(0), threading.Event()

    def think(_question: Question, _cancelled: Callable[[], bool]) -> Answer:
        asked.release()
        assert go.wait(20)
        return provider.answer("done")

    provider = Scripted([think] * 4)
    jobs = [script(world, provider, asking, f"comment/{number}") for number in range(4)]
    workers = [threading.Thread(target=advance, args=(world.runtime, job_id)) for job_id in jobs]
    for worker in workers:
        worker.start()
    assert asked.acquire(timeout=20)
    assert not asked.acquire(timeout=1), "two were let through at once"
    assert [world.job(job_id).state for job_id in jobs] == [JobState.running] * 4, (
        "what is promised is no reason to fail"
    )
    go.set()
    for worker in workers:
        worker.join(20)
    # The second one fits into what the first one gave back, and the others into nothing.
    assert sorted(world.job(job_id).state for job_id in jobs) == [JobState.failed] * 2 + [JobState.waiting] * 2
    assert len(provider.asked) == 2


def test_job_that_is_cancelled_while_it_waits_for_a_budget_asks_nobody(world: World) -> None:
    set_to(world, model_tokens_per_repository_day=MOST + 1)
    asked, go = threading.Event(), threading.Event()

    def think(_question: Question, _cancelled: Callable[[], bool]) -> Answer:
        asked.set()
        assert go.wait(20)
        return provider.answer("done")

    provider = Scripted([think])
    first, second = (script(world, provider, asking, f"comment/{number}") for number in range(2))
    workers = [threading.Thread(target=advance, args=(world.runtime, job_id)) for job_id in (first, second)]
    workers[0].start()
    assert asked.wait(20)
    workers[1].start()
    assert inbox.cancel(second, "mona")
    workers[1].join(20)
    assert not workers[1].is_alive()
    go.set()
    workers[0].join(20)
    assert (world.job(second).state, len(provider.asked)) == (JobState.cancelled, 1)


def test_wait_for_a_budget_has_an_end_that_says_what_is_promised(world: World) -> None:
    set_to(world, model_tokens_per_repository_day=MOST + 1, model_whole_time_limit_s=0.2)
    asked, go = threading.Event(), threading.Event()

    def think(_question: Question, _cancelled: Callable[[], bool]) -> Answer:
        asked.set()
        assert go.wait(20)
        return provider.answer("done")

    provider = Scripted([think])
    first, second = (script(world, provider, asking, f"comment/{number}") for number in range(2))
    worker = threading.Thread(target=advance, args=(world.runtime, first))
    worker.start()
    assert asked.wait(20)
    advance(world.runtime, second)
    go.set()
    worker.join(20)
    assert f"{MOST:,} tokens are promised to requests in progress" in message_of(world, second)


def test_siblings_that_answer_slowly_are_waited_for_one_after_the_other_however_long_all_of_them_take(
    local: World,
) -> None:
    # Each that ended leaves room for one more, and never for two at a time.
    set_to(local, model_tokens_per_job=MOST + 100, model_whole_time_limit_s=1.0)

    def think(_question: Question, _cancelled: Callable[[], bool]) -> Answer:
        time.sleep(0.8)
        return provider.answer("done")

    provider = Scripted([think] * 4, usage=Usage(input_tokens=10))
    questions = {f"candidate-{n}": ask_for(f"softmax {n}") for n in range(4)}
    found: dict[str, Answer | ModelError] = {}
    script(local, provider, lambda context: found.update(context.ask_all(questions)))
    embedded.drive()
    assert [type(outcome) for outcome in found.values()] == [Answer] * 4


def test_promise_is_given_back_when_the_request_ends(local: World) -> None:
    # Two at a time would not fit, one after the other they do.
    set_to(local, model_tokens_per_job=MOST + 1)
    provider = Scripted([trouble(Trouble.refused, Usage(output_tokens=1)), trouble(Trouble.refused, Usage())])

    def run(context: StageContext) -> None:
        assert len(context.ask_all({"a": ask_for("softmax")})) == 1
        assert len(context.ask_all({"b": ask_for("softmax")})) == 1

    job_id = script(local, provider, run)
    embedded.drive()
    assert local.job(job_id).state is JobState.waiting


def test_request_of_a_lost_worker_is_charged_at_its_most_and_only_once(world: World) -> None:
    def die(name: str) -> None:
        if name == "model_reserved":
            raise DiedError

    job_id = script(world, Scripted(), asking)
    world.runtime.at_boundary = die
    with pytest.raises(DiedError):
        advance(world.runtime, job_id)
    world.runtime.at_boundary = lambda _name: None
    # The lease is still there, and so is the promise.
    reconcile(world.runtime)
    assert (ledger(world), outcomes(world)) == ([], [None])
    assert inbox.cancel(job_id, "mona")
    reconcile(world.runtime)
    reconcile(world.runtime)
    assert outcomes(world) == ["lost"]
    assert sum(amount for _, amount in ledger(world)) == MOST


@pytest.mark.parametrize("kind", [None, Trouble.truncated, Trouble.overdue, Trouble.cancelled])
def test_request_whose_tokens_nobody_counts_is_charged_at_its_most(local: World, kind: Trouble | None) -> None:
    provider = Scripted([trouble(kind, Usage()) if kind else "done"], usage=Usage())
    script(local, provider, lambda context: context.ask_all({"a": ask_for("softmax")}) and None)
    embedded.drive()
    assert outcomes(local) == [kind.value if kind else "answered"]
    assert ledger(local) == [("input_tokens", MOST - 1000), ("output_tokens", 1000)]


@pytest.mark.parametrize("kind", [Trouble.overloaded, Trouble.unreachable, Trouble.unauthorised])
def test_request_that_nobody_took_costs_nothing(local: World, kind: Trouble) -> None:
    script(
        local, Scripted([trouble(kind, Usage())]), lambda context: context.ask_all({"a": ask_for("softmax")}) and None
    )
    embedded.drive()
    assert (outcomes(local), ledger(local)) == ([kind.value], [])


def test_replay_takes_nothing_of_any_budget(local: World) -> None:
    set_to(local, model_tokens_per_job=0)
    provider = Scripted()
    job_id = script(local, provider, asking)
    local.runtime.models = lambda: Models((provider,), paid=False)
    embedded.drive()
    assert local.job(job_id).state is JobState.waiting
    assert ledger(local) == []


def test_siblings_run_one_after_the_other_where_their_promises_do_not_fit_together(local: World) -> None:
    """Three candidates that can cost $0.66 each and cost $0.03 are no reason to stop a job that may cost $1.50."""
    prices = {"scripted/model-1": Price(input=3, output=15, cache_read=0.3, cache_write=3.75)}
    set_to(local, model_prices=prices, model_dollars_per_job=1.5)
    large = {"most_tokens": 32_000, "thinking_tokens": 12_000}
    questions = {f"candidate-{n}": ask_for(f"softmax {n}", **large) for n in range(3)}
    found: dict[str, Answer | ModelError] = {}
    provider = Scripted()
    job_id = script(local, provider, lambda context: found.update(context.ask_all(questions)))
    embedded.drive()
    assert local.job(job_id).state is JobState.waiting
    assert [type(outcome) for outcome in found.values()] == [Answer] * 3
    assert {question.most_tokens for question in provider.asked} == {32_000}


def test_answers_that_were_paid_for_are_given_where_a_budget_has_no_room_for_one_more(local: World) -> None:
    set_to(local, model_tokens_per_job=2 * TOOK + LIKELY - 1)
    questions = {f"try/{number}": ask_for(f"softmax {number}") for number in range(3)}
    found: list[dict[str, Answer | ModelError]] = []
    provider = Scripted()

    def run(context: StageContext) -> None:
        # As a stage does that is run again from its start after a pause.
        found.append(context.ask_all(questions))
        found.append(context.ask_all(questions))

    job_id = script(local, provider, run)
    embedded.drive()
    assert local.job(job_id).state is JobState.waiting
    assert len(provider.asked) == 2
    assert [str(it) for it in found[0].values()] == [str(it) for it in found[1].values()]
    (left,) = [outcome for outcome in found[1].values() if isinstance(outcome, ModelError)]
    assert left.trouble is Trouble.out_of_budget
    assert "the model budget of this job is reached" in str(left)


def test_budget_without_room_for_any_of_several_stops_the_job(local: World) -> None:
    set_to(local, model_tokens_per_job=LIKELY - 1)
    questions = {f"try/{number}": ask_for(f"softmax {number}") for number in range(3)}
    job_id = script(local, Scripted(), lambda context: context.ask_all(questions) and None)
    embedded.drive()
    assert "this job is reached" in message_of(local, job_id)
