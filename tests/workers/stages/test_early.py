"""Candidates that are judged as they arrive, and those that are not needed any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpu_runner.contracts import Status, Verdict
from tests.workers.stages.answers import benchmark
from tests.workers.stages.context import FakeContext, Said
from tests.workers.stages.creating import OFF, OTHER, RIGHT, WRONG, answers, by_source, creating, kernel
from tests.workers.stages.test_search import committed, failure, generated, outcomes
from workers.contracts import AuthorName, Choose, FailureCode
from workers.models.protocol import ModelError, Question, Trouble
from workers.stages.analyze import Analyze

FIRST, SECOND, THIRD = "candidate-1", "candidate-2", "candidate-3"


def arriving(order: Sequence[str], said: dict[str, Said], made: Any = None, **options: Any) -> FakeContext:
    """Give a create whose answers arrive in an order; what is not said is never waited for."""

    def speak(question: Question) -> Said:
        key = next(key for key, asked in context.questions.items() if asked == question)
        return said[key]

    context = creating([], made, author=AuthorName.llm, **options)
    context.run(Analyze())
    context.asked.clear()
    context.speaks, context.arrivals = speak, order
    return context


def test_one_that_is_proved_before_the_others_have_answered_is_taken() -> None:
    context = arriving((SECOND, FIRST, THIRD), {SECOND: kernel(OTHER)})
    summary, result = generated(context)
    assert outcomes(summary.attempts) == ["not needed", "passed chosen", "not needed"]
    assert context.order == ["verify verify-candidate-2"]
    assert "512" in (committed(result)["small/kernels/reglu.py"] or "")
    told = {attempt.evidence for attempt in summary.attempts if attempt.outcome == "not needed"}
    assert told == {"its answer was not waited for, since another one had decided"}


def test_one_that_is_wrong_is_judged_at_once_and_the_others_are_waited_for() -> None:
    context = arriving((THIRD, FIRST, SECOND), {THIRD: kernel(WRONG), FIRST: kernel()})
    summary, _ = generated(context)
    assert outcomes(summary.attempts) == ["passed chosen", "not needed", "not judged"]
    assert context.order == ["verify verify-candidate-3", "verify verify-candidate-1"]


def test_where_all_are_wrong_none_is_ended_and_a_repair_is_asked_for() -> None:
    wrong = {key: kernel(WRONG.replace("1024", size)) for key, size in ((FIRST, "64"), (SECOND, "128"), (THIRD, "256"))}
    context = arriving((THIRD, SECOND, FIRST), wrong | {"repair-1": kernel()})
    summary, _ = generated(context)
    assert outcomes(summary.attempts) == ["incorrect_gradient"] * 3 + ["passed chosen"]


@pytest.mark.parametrize("order", [(FIRST, SECOND, THIRD), (THIRD, SECOND, FIRST), (SECOND, THIRD, FIRST)])
def test_the_same_answers_lead_to_the_same_kernel_in_whatever_order_they_came(order: Sequence[str]) -> None:
    said: dict[str, Said] = {FIRST: kernel(WRONG), SECOND: kernel(OTHER), THIRD: kernel()}
    context = arriving(order, said)
    summary, result = generated(context)
    chosen = next(attempt for attempt in summary.attempts if attempt.chosen)
    answered = {key: it for key, it in context.kept.items() if not isinstance(it, ModelError)}
    # All at once, with what was not needed as it was kept: what a run after a pause has, or a replay.
    again = arriving(order, said)
    again.speaks = lambda question: _kept(context, question)
    again.arrivals = None
    same, repeated = generated(again)
    assert (same.attempts, committed(repeated)) == (summary.attempts, committed(result))
    assert chosen.question == next(key for key in (SECOND, THIRD) if key in answered)


def _kept(context: FakeContext, question: Question) -> Said:
    key = next(key for key, asked in context.questions.items() if asked == question)
    outcome = context.kept[key]
    return outcome if isinstance(outcome, ModelError) else outcome.data or {}


def test_the_same_code_again_is_a_duplicate_of_the_first_in_their_order_whichever_came_first() -> None:
    again = WRONG.replace("c = a * b where", "c is a * b where")
    context = arriving((THIRD, FIRST, SECOND), {THIRD: kernel(WRONG), FIRST: kernel(again), SECOND: kernel()})
    summary, _ = generated(context)
    assert outcomes(summary.attempts) == ["incorrect_gradient", "passed chosen", "duplicate"]


def test_what_cannot_be_read_is_not_judged_and_ends_nothing() -> None:
    context = arriving((FIRST, SECOND, THIRD), {FIRST: {"source": "no"}, SECOND: kernel(), THIRD: kernel(OTHER)})
    summary, _ = generated(context)
    assert outcomes(summary.attempts) == ["form", "passed chosen", "not needed"]


def test_a_trouble_that_passes_is_told_as_that_and_not_as_not_needed() -> None:
    down = ModelError(Trouble.overloaded, "the provider is overloaded", provider="scripted")
    context = arriving((FIRST, SECOND, THIRD), {FIRST: down, SECOND: kernel(), THIRD: kernel(OTHER)})
    summary, _ = generated(context)
    assert outcomes(summary.attempts) == ["overloaded", "passed chosen", "not needed"]


@pytest.mark.parametrize("status", [Status.degenerate_problem, Status.environment_error])
def test_what_no_candidate_can_pass_ends_the_others_too(status: Status) -> None:
    context = arriving((THIRD, FIRST, SECOND), {THIRD: kernel()}, made=answers(verify=Verdict(status)))
    assert status.value in failure(context).message
    assert list(context.kept) == [THIRD, FIRST, SECOND]


def test_a_host_that_fails_is_told_as_that() -> None:
    context = arriving((THIRD, FIRST, SECOND), {THIRD: kernel()}, made=answers(verify="the host is gone"))
    assert failure(context).code is FailureCode.environment


def test_where_the_best_is_wanted_all_are_waited_for_and_judged_as_they_arrive() -> None:
    said: dict[str, Said] = {FIRST: kernel(WRONG), SECOND: kernel(OTHER), THIRD: kernel()}
    context = arriving((THIRD, SECOND, FIRST), said, made=answers(benchmark=benchmark()), choose=Choose.best)
    summary, _ = generated(context)
    assert [attempt.outcome for attempt in summary.attempts] == ["incorrect_gradient", "passed", "passed"]
    assert context.order[:3] == [f"verify verify-{key}" for key in (THIRD, SECOND, FIRST)]


def test_a_proof_that_goes_on_is_waited_for_before_the_next_one_is_begun() -> None:
    context = arriving((THIRD, SECOND, FIRST), {THIRD: kernel(WRONG), SECOND: kernel(), FIRST: kernel(OTHER)})
    begun: list[str] = []

    def meanwhile(key: str, function: Any) -> Any:
        begun.append(key)
        return None if len(begun) < 3 else function()

    context.meanwhile = meanwhile  # type: ignore[method-assign]
    summary, _ = generated(context)
    assert begun == ["trial-candidate-3"] * 2
    # All had answered before anything was known, and the first in their order that is proved is taken.
    assert outcomes(summary.attempts) == ["passed chosen", "not judged", "not judged"]


def test_a_verdict_against_one_is_no_verdict_on_the_next() -> None:
    verdicts = [replace(OFF, status=Status.compile_error), OFF]
    context = arriving(
        (SECOND, FIRST, THIRD),
        {SECOND: kernel(WRONG), FIRST: kernel(RIGHT), THIRD: kernel(OTHER)},
        made=answers(verify=lambda request: verdicts.pop(0) if verdicts else by_source(request)),
    )
    summary, _ = generated(context)
    assert outcomes(summary.attempts) == ["incorrect_gradient", "compile_error", "passed chosen"]
