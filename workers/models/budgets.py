"""Limits on what models may use: what a request is likely to take and what it can take, and the words for a full budget. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from workers.contracts import Failure, FailureCode, UserFacingError
from workers.models.pricing import Price, cost, dollars
from workers.models.protocol import Question, Usage

# Text in English and code takes three to four characters a token; an estimate must not be below what is counted.
CHARACTERS_A_TOKEN = 3
# Answers and thinking take a small part of the room that they are given: in the recorded jobs (docs/models.md) less than this.
LIKELY_SHARE = 250  # per mille
WHOLE = 1000  # per mille
LEAST_THINKING_TOKENS = 1024  # a provider takes no smaller budget for thinking


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


@dataclass(frozen=True)
class Room:
    """One budget as it stands: what is gone, and what requests in progress were promised, this job's and others'."""

    budget: Budget
    used: int
    promised: int
    whose: str  # the person or the repository

    def left(self) -> int:
        """Give what nobody has used and nobody was promised."""
        return self.budget.limit - self.used - self.promised


class BudgetReachedError(UserFacingError):
    """A request was not made because a budget has no room for what it is likely to take."""

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


def likely_of(question: Question, price: Price | None) -> Amount:
    """Give what one request for an answer is likely to take."""
    return most_of(_shortened(question, LIKELY_SHARE), price)


def granted(
    question: Question, price: Price | None, rooms: Iterable[Room], now: float, *, waits: bool
) -> Question | None:
    """Give a question as the budgets have room for it; None: there may be room when requests in progress have ended.

    What is promised is the most that the request can take, so that no budget is ever passed. Where that does not fit but what is
    likely does, the promises of others are waited for, which are mostly given back; without any, or without ``waits``, the answer
    is limited to what is left.

    Raises:
        BudgetReachedError: a budget has no room for what the request is likely to take.
    """
    found, likely = tuple(rooms), likely_of(question, price)
    if _fits(question, price, found):
        return question
    for room in found:
        taken = room.used if waits else room.used + room.promised
        if taken + likely.of(room.budget.unit) > room.budget.limit:
            raise reached(room, likely, now)
    if waits and any(room.promised for room in found if not _fits(question, price, (room,))):
        return None
    longest = bisect_left(
        range(LIKELY_SHARE, WHOLE), True, key=lambda share: not _fits(_shortened(question, share + 1), price, found)
    )
    return _shortened(question, LIKELY_SHARE + longest)


def _fits(question: Question, price: Price | None, rooms: Iterable[Room]) -> bool:
    most = most_of(question, price)
    return all(most.of(room.budget.unit) <= room.left() for room in rooms)


def _shortened(question: Question, share: int) -> Question:
    """Give a question whose answer has a share, per mille, of its room."""
    thinking = question.thinking_tokens * share // WHOLE
    return replace(
        question,
        most_tokens=max(1, question.most_tokens * share // WHOLE),
        thinking_tokens=thinking if thinking >= min(LEAST_THINKING_TOKENS, question.thinking_tokens) else 0,
    )


def reached(room: Room, likely: Amount, now: float) -> BudgetReachedError:
    """Give what a person is told: which budget, how much of it was used, when it renews, and what to do."""
    budget = room.budget
    shown = _tokens if budget.unit is Unit.tokens else dollars
    promised = f", {shown(room.promised)} are promised to requests in progress" if room.promised else ""
    message = (
        f"the model budget of {_of(budget.scope, room.whose)} is reached: {shown(room.used)} of {shown(budget.limit)} are used"
        f"{promised}, and the next request is likely to take {shown(likely.of(budget.unit))}"
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
