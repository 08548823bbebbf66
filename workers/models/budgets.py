"""Limits on what models may use: how much a request may take at most, which budget it would pass, and the words for that. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from workers.contracts import Failure, FailureCode, UserFacingError
from workers.models.pricing import Price, cost, dollars
from workers.models.protocol import Question, Usage

# Text in English and code takes three to four characters a token; an estimate must not be below what is counted.
CHARACTERS_A_TOKEN = 3


class Scope(StrEnum):
    """Whose use a budget adds up. All but a job's are for one day, in UTC."""

    job = "job"
    person = "person"
    repository = "repository"
    installation = "installation"  # of the GitHub App; where jobs have none, all of them together


class Unit(StrEnum):
    """What a budget counts."""

    tokens = "tokens"  # read, written and cached alike
    micro_dollars = "micro_dollars"


@dataclass(frozen=True)
class Budget:
    """One limit: what a scope may use of a unit, and the setting that says so."""

    scope: Scope
    unit: Unit
    limit: int
    setting: str


@dataclass(frozen=True)
class Amount:
    """Tokens and what they cost; ``micro_dollars`` None: the model has no price."""

    input_tokens: int
    output_tokens: int
    micro_dollars: int | None

    def of(self, unit: Unit) -> int:
        """Give the amount in a unit; an unknown cost counts as nothing, for no budget in money starts without prices."""
        return self.input_tokens + self.output_tokens if unit is Unit.tokens else self.micro_dollars or 0


class BudgetReachedError(UserFacingError):
    """A request was not made because it might pass a budget."""

    def __init__(self, failure: Failure, budget: Budget) -> None:
        super().__init__(failure)
        self.budget = budget


def most_of(question: Question, price: Price | None) -> Amount:
    """Give the most that one request for an answer can take, before anybody has counted its tokens."""
    parts = (*question.system, *(part for message in question.messages for part in message.parts))
    characters = sum(len(part.text) for part in parts)
    if question.form is not None:
        characters += len(question.form.name) + len(question.form.description) + len(str(question.form.schema))
    read = -(-characters // CHARACTERS_A_TOKEN)
    written = question.most_tokens + question.thinking_tokens
    if price is None:
        return Amount(read, written, None)
    # A token of the question is read anew or written to the cache, whichever costs more.
    dearest = max(
        cost(Usage(input_tokens=read, output_tokens=written), price) or 0,
        cost(Usage(cache_written_tokens=read, output_tokens=written), price) or 0,
    )
    return Amount(read, written, dearest)


def day_start(now: float) -> float:
    """Give when the day began in which a time lies, UTC; both in seconds since the epoch."""
    return now - now % 86_400


def passes(budget: Budget, used: int, most: Amount) -> bool:
    """Tell whether a request may pass a budget of which ``used`` is gone or promised to others."""
    return used + most.of(budget.unit) > budget.limit


def reached(budget: Budget, used: int, most: Amount, now: float, whose: str) -> BudgetReachedError:
    """Give what a person is told: which budget, how much of it was used, when it renews, and what to do."""
    shown = _tokens if budget.unit is Unit.tokens else dollars
    limit, spent, wanted = shown(budget.limit), shown(used), shown(most.of(budget.unit))
    message = (
        f"the model budget of {_of(budget.scope, whose)} is reached: {spent} of {limit} are used or promised, "
        f"and the next request may take up to {wanted}"
    )
    return BudgetReachedError(Failure(FailureCode.budget, message, _cure(budget, now)), budget)


def _cure(budget: Budget, now: float) -> str:
    without = "a new command with `--author compiler` asks no model"
    if budget.scope is Scope.job:
        return f"A job's budget does not renew. An operator can raise `{budget.setting}`, then `/kernel retry` goes on; {without}."
    at = datetime.fromtimestamp(day_start(now) + 86_400, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"It renews at {at}, then `/kernel retry` goes on. An operator can raise `{budget.setting}`; {without}."


def _of(scope: Scope, whose: str) -> str:
    return {
        Scope.job: "this job",
        Scope.person: f"{whose} for today",
        Scope.repository: f"{whose} for today",
        Scope.installation: "this installation of the bot for today",
    }[scope]


def _tokens(count: int) -> str:
    return f"{count:,} tokens"
