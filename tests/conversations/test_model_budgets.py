"""Budgets that are reached in the middle of a job: which, when it renews, what to do; and nothing is paid twice."""

# ruff: noqa: E501 (messages stand here as they are sent; fixtures)

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from tests.conversations.asking import Ask, Asking, ask_models
from tests.conversations.talk import gist
from tests.conversations.test_failures import WRONG as FOUND_WRONG
from tests.conversations.test_models import BLOCK
from tests.recorded.libraries import REGLU
from tests.recorded.runner import recorded
from tests.workers.models.kinds import ANTHROPIC
from tests.workers.stages.creating import WORDS, WRONG, kernel, problem
from workers.contracts import FailureCode, JobState

__all__ = ["ask_models"]
DAY_S = 86_400
SPENT = 100_000  # tokens that the first kernel takes to read, by its server's word
ROOM = 110_000  # enough for it, and not for a second one


def at_the_repair(asking: Asking, issue: int | None = None) -> int:
    """Bring a job to the question for a repair, for which there is no room."""
    asking.talk.answer("verify", recorded("verify", REGLU) | FOUND_WRONG)
    asking.line.answer(kernel(WRONG), input_tokens=SPENT)
    number = asking.ask(BLOCK, options="--candidates 1 --auto")
    failure = asking.talk.job().failure
    assert failure is not None
    assert failure.code is FailureCode.budget
    assert asking.kernel() is None
    return number


def goes_on(asking: Asking, number: int) -> None:
    """Retry: only the repair is asked, which has the evidence of the candidate that was paid for before."""
    asking.talk.answer("verify", recorded("verify", REGLU) | FOUND_WRONG)
    asking.line.answer(kernel())
    asking.talk.say(number, "/kernel retry")
    asking.talk.settle()
    asking.talk.skip(number)
    asking.talk.skip(asking.talk.pull())
    assert asking.talk.job().state is JobState.done
    first, repair = asking.line.prompts()
    assert "The last proposal failed" in repair and "The last proposal failed" not in first
    assert spent(asking) == [("input", SPENT + 100), ("output", 84)]


def spent(asking: Asking) -> list[tuple[str, int]]:
    """Give the tokens that ``/metrics`` tells."""
    rows = [row for row in asking.talk.client.get("/metrics").text.splitlines() if "model_tokens_total{" in row]
    found = [(row.partition('kind="')[2].partition('"')[0], int(float(row.split()[-1]))) for row in rows]
    return sorted(pair for pair in found if pair[1])


def test_a_persons_budget_is_reached_and_the_next_day_goes_on_without_paying_twice(ask_models: Ask) -> None:
    asking = ask_models(model_tokens_per_person_day=ROOM)
    number = at_the_repair(asking)
    assert gist(asking.stopped()) == snapshot("""\
**`reglu` stopped in generate:** the model budget of maintainer for today is reached: 100,042 tokens of 110,000 tokens are used, and the next request is likely to take MANY tokens.
**Next:** It renews at MIDNIGHT, then `/kernel retry` goes on. An operator can raise `KERNELSMITH_MODEL_TOKENS_PER_PERSON_DAY`; a new command with `--author compiler` asks no model.\
""")
    asking.talk.answer("verify", recorded("verify", REGLU) | FOUND_WRONG)
    asking.talk.say(number, "/kernel retry")
    asking.talk.settle()
    assert "100,042 tokens of 110,000 tokens" in gist(asking.stopped())
    assert len(asking.line.prompts()) == 1
    asking.talk.clock[0] += DAY_S
    goes_on(asking, number)


@pytest.mark.long  # in `make test` test_budgets of the engine has every limit
def test_a_jobs_budget_does_not_renew_and_goes_on_where_it_is_raised(ask_models: Ask) -> None:
    asking = ask_models(model_tokens_per_job=ROOM)
    number = at_the_repair(asking)
    assert gist(asking.stopped()) == snapshot("""\
**`reglu` stopped in generate:** the model budget of this job is reached: 100,042 tokens of 110,000 tokens are used, and the next request is likely to take MANY tokens.
**Next:** A job's budget does not renew. An operator can raise `KERNELSMITH_MODEL_TOKENS_PER_JOB`, then `/kernel retry` goes on; a new command with `--author compiler` asks no model.\
""")
    asking.configure(model_tokens_per_job=10 * ROOM)
    goes_on(asking, number)


@pytest.mark.long  # in `make test` test_budgets of the engine has every limit
def test_a_budget_in_dollars_says_what_is_spent(ask_models: Ask) -> None:
    asking = ask_models()
    prices = {ANTHROPIC.model: {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}}
    asking.configure(model_prices=prices, model_dollars_per_job=0.45)
    at_the_repair(asking)
    assert gist(asking.stopped()) == snapshot("""\
**`reglu` stopped in generate:** the model budget of this job is reached: &#36;0.30 of &#36;0.45 are used, and the next request is likely to take &#36;0.23.
**Next:** A job's budget does not renew. An operator can raise `KERNELSMITH_MODEL_DOLLARS_PER_JOB`, then `/kernel retry` goes on; a new command with `--author compiler` asks no model.\
""")


@pytest.mark.long  # in `make test` test_budgets of the engine has every limit
def test_words_are_understood_and_then_there_is_no_room_for_the_kernel(ask_models: Ask) -> None:
    asking = ask_models(model_tokens_per_person_day=20_000)
    asking.line.answer(problem())
    number = asking.ask(WORDS)
    asking.talk.skip(number)
    asking.talk.review()
    assert gist(asking.stopped()) == snapshot("""\
**`reglu` stopped in generate:** the model budget of maintainer for today is reached: 142 tokens of 20,000 tokens are used, and the next request is likely to take MANY tokens.
**Next:** It renews at MIDNIGHT, then `/kernel retry` goes on. An operator can raise `KERNELSMITH_MODEL_TOKENS_PER_PERSON_DAY`; a new command with `--author compiler` asks no model.\
""")
    assert asking.line.tasks() == ["give_problem"]


def test_a_person_without_any_room_is_told_at_once(ask_models: Ask) -> None:
    asking = ask_models(model_tokens_per_person_day=0)
    asking.ask(WORDS)
    assert gist(asking.stopped()) == snapshot("""\
**`reglu` stopped in analyze:** the model budget of maintainer for today is reached: 0 tokens of 0 tokens are used, and the next request is likely to take MANY tokens.
**Next:** It renews at MIDNIGHT, then `/kernel retry` goes on. An operator can raise `KERNELSMITH_MODEL_TOKENS_PER_PERSON_DAY`; a new command with `--author compiler` asks no model.\
""")
    assert asking.line.prompts() == []
