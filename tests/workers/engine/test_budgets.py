"""Budgets as a job meets them, with the ledger in the database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.workers.engine.fakes import request
from tests.workers.engine.scripted import USAGE, Scripted, ask_for, ledger, outcomes, script, set_to, trouble
from tests.workers.store.worlds import World
from workers import embedded, inbox
from workers.contracts import FailureCode, JobState, Origin
from workers.engine.advance import advance
from workers.engine.protocol import StageContext
from workers.models.budgets import most_of
from workers.models.ledger import Models
from workers.models.pricing import Price
from workers.models.protocol import Answer, Question, Trouble, Usage
from workers.reconcile import reconcile

TOOK = 1260  # tokens of one answer
MOST = most_of(ask_for("softmax"), None).input_tokens + 1000
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
    return f"{failure.message}. {failure.cure}"


def test_request_that_fits_exactly_is_made_and_one_token_less_is_too_little(world: World) -> None:
    set_to(world, model_tokens_per_job=MOST)
    assert world.job(first := script(world, Scripted(), asking)).state is JobState.queued
    embedded.drive()
    assert world.job(first).state is JobState.waiting
    set_to(world, model_tokens_per_job=MOST - 1)
    provider = Scripted()
    second = script(world, provider, asking, "comment/2")
    embedded.drive()
    assert world.job(second).state is JobState.failed
    assert provider.asked == []


def test_budget_of_a_job_says_what_was_used_and_what_to_do(local: World) -> None:
    set_to(local, model_tokens_per_job=2000)

    def run(context: StageContext) -> None:
        context.ask("a", ask_for("softmax"))
        context.ask("b", ask_for("softmax"))

    job_id = script(local, Scripted(), run)
    embedded.drive()
    assert message_of(local, job_id) == (
        "the model budget of this job is reached: 1,260 tokens of 2,000 tokens are used or promised, and the next request may "
        f"take up to {MOST:,} tokens. A job's budget does not renew. An operator can raise `KERNELSMITH_MODEL_TOKENS_PER_JOB`, "
        "then `/kernel retry` goes on; a new command with `--author compiler` asks no model."
    )


def test_budget_in_dollars_counts_what_the_prices_say(local: World) -> None:
    prices = {"scripted/model-1": Price(input=1000, output=2000, cache_read=0, cache_write=0)}
    set_to(local, model_prices=prices, model_dollars_per_person_day=3.4)
    job_id = script(local, Scripted(), asking)
    embedded.drive()
    assert local.job(job_id).state is JobState.waiting
    assert ("micro_dollars", 1_400_000) in ledger(local)
    assert message_of(local, another(local, "comment/2")) == (
        "the model budget of mona for today is reached: $1.40 of $3.40 are used or promised, and the next request may take up to "
        "$2.01. It renews at 2027-01-16 00:00 UTC, then `/kernel retry` goes on. An operator can raise "
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
    set_to(world, **{f"model_tokens_per_{scope}_day": TOOK + MOST - 1})
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
    set_to(local, model_tokens_per_job=MOST)

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
    set_to(local, model_tokens_per_job=MOST + TOOK - 1)

    def run(context: StageContext) -> None:
        context.ask_all({"a": ask_for("softmax")})
        context.ask("b", ask_for("softmax"))

    job_id = script(local, Scripted([trouble(Trouble.truncated, USAGE)]), run)
    embedded.drive()
    assert local.job(job_id).state is JobState.failed
    assert outcomes(local) == ["truncated"]


def test_two_workers_that_race_for_the_last_of_a_budget_are_not_both_let_through(world: World) -> None:
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
    for worker in workers:
        worker.join(0.1 if worker.is_alive() else 0)
    until_failed(world, jobs, 3)
    go.set()
    for worker in workers:
        worker.join(20)
    assert sorted(world.job(job_id).state for job_id in jobs) == [JobState.failed] * 3 + [JobState.waiting]
    assert len(provider.asked) == 1
    assert ledger(world) == [
        ("input_tokens", 1000),
        ("output_tokens", 200),
        ("cache_read_tokens", 50),
        ("cache_written_tokens", 10),
    ]


def until_failed(world: World, jobs: list[str], count: int) -> None:
    waiting = threading.Event()
    for _ in range(400):
        if [world.job(job_id).state for job_id in jobs].count(JobState.failed) == count:
            return
        waiting.wait(0.05)
    raise AssertionError("those that found no room did not end")


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
    class DiedError(BaseException):
        pass

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


def test_many_at_once_keep_what_a_budget_had_room_for(local: World) -> None:
    set_to(local, model_tokens_per_job=2 * MOST)
    together = threading.Barrier(2)

    def meet(_question: Question, _cancelled: Callable[[], bool]) -> Answer:
        together.wait(20)
        return provider.answer("done")

    provider = Scripted([meet, meet])
    questions = {f"try/{number}": ask_for(f"softmax {number}") for number in range(3)}
    job_id = script(local, provider, lambda context: context.ask_all(questions) and None)
    embedded.drive()
    assert "this job is reached" in message_of(local, job_id)
    assert len(local.job(job_id).artifacts) == 2
