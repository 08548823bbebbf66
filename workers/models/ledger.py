"""Prices, budgets, and the ledger that every request to a provider goes through."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from workers.contracts import Failure, FailureCode, UserFacingError
from workers.models.protocol import Answer, ModelError, PrefixCache, Provider, Question, Trouble, Usage


class Price(BaseModel):
    """What one model's tokens cost.

    Units: dollars per million tokens, which is micro-dollars per token.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cache_read: float = Field(ge=0, allow_inf_nan=False)
    cache_write: float = Field(ge=0, allow_inf_nan=False)


def price_of(prices: Mapping[str, Price], provider: str, model: str) -> Price | None:
    """A model's price: what is set for ``provider/model``, else for ``model``; None where neither is."""
    return prices.get(f"{provider}/{model}", prices.get(model))


def cost(usage: Usage, price: Price | None) -> int | None:
    """What a request cost, None where the model has no price.

    Units: micro-dollars, rounded up.
    """
    if price is None:
        return None
    parts = (
        (usage.input_tokens, price.input),
        (usage.output_tokens, price.output),
        (usage.cache_read_tokens, price.cache_read),
        (usage.cache_written_tokens, price.cache_write),
    )
    # A price such as 0.1 is no binary number, and must not make a micro-dollar of its rounding error.
    exact = sum((tokens * Decimal(str(each)) for tokens, each in parts), Decimal(0))
    return int(exact.to_integral_value(ROUND_CEILING))


def dollars(micro_dollars: int) -> str:
    """An amount for people, such as ``$1.25``; less than a cent with as many places as it takes."""
    if 0 < micro_dollars < 10_000:
        return f"${micro_dollars / 1_000_000:.6f}".rstrip("0")
    return f"${micro_dollars / 1_000_000:,.2f}"


# Text in English and code takes three to four characters a token; an estimate must not be below what is counted.
CHARACTERS_A_TOKEN = 3
# Answers and thinking take a small part of the room that they are given: in the recorded jobs (docs/models.md) less than this.
LIKELY_SHARE = 250  # per mille
WHOLE = 1000  # per mille
LEAST_THINKING_TOKENS = 1024  # a provider takes no smaller budget for thinking


class BudgetScope(StrEnum):
    """Whose use a budget adds up. All but a job's are for one day, in UTC."""

    job = "job"
    person = "person"
    repository = "repository"
    installation = "installation"  # of the GitHub App; where jobs have none, all of them together


class BudgetUnit(StrEnum):
    """What a budget counts."""

    tokens = "tokens"  # read, written and cached alike
    micro_dollars = "micro_dollars"


@dataclass(frozen=True)
class Budget:
    """One limit: what a scope may use of a unit, and the setting that defines it."""

    scope: BudgetScope
    unit: BudgetUnit
    limit: int
    setting: str


@dataclass(frozen=True)
class Amount:
    """Tokens and what they cost; ``micro_dollars`` None: the model has no price."""

    input_tokens: int
    output_tokens: int
    micro_dollars: int | None

    def of(self, unit: BudgetUnit) -> int:
        """The amount in a unit; an unknown cost counts as zero, since no budget in money starts without prices."""
        return self.input_tokens + self.output_tokens if unit is BudgetUnit.tokens else self.micro_dollars or 0


@dataclass(frozen=True)
class Room:
    """The state of one budget: what is used, and what requests in progress have reserved, this job's and others'."""

    budget: Budget
    used: int
    promised: int
    whose: str  # the person or the repository

    def left(self) -> int:
        """What nobody has used and nobody was promised."""
        return self.budget.limit - self.used - self.promised


class BudgetReachedError(UserFacingError):
    """A request was not made because a budget has no room for what it is likely to take."""

    def __init__(self, failure: Failure, budget: Budget) -> None:
        super().__init__(failure)
        self.budget = budget


def most_of(question: Question, price: Price | None) -> Amount:
    """The most that one request for an answer can take, before anybody has counted its tokens."""
    parts = (*question.system, *(part for message in question.messages for part in message.parts))
    characters = sum(len(part.text) for part in parts)
    if question.form is not None:
        characters += len(question.form.name) + len(question.form.description) + len(str(question.form.schema))
    read = -(-characters // CHARACTERS_A_TOKEN)
    output_tokens = question.most_tokens + question.thinking_tokens
    if price is None:
        return Amount(read, output_tokens, None)
    # A token of the question is read anew or written to the cache, whichever costs more.
    dearest = max(
        cost(Usage(input_tokens=read, output_tokens=output_tokens), price) or 0,
        cost(Usage(cache_written_tokens=read, output_tokens=output_tokens), price) or 0,
    )
    return Amount(read, output_tokens, dearest)


def day_start(now: float) -> float:
    """When the day began in which a time lies, UTC; both in seconds since the epoch."""
    return now - now % 86_400


def likely_of(question: Question, price: Price | None) -> Amount:
    """What one request for an answer is likely to take."""
    return most_of(_shortened(question, LIKELY_SHARE), price)


def granted(
    question: Question, price: Price | None, rooms: Iterable[Room], now: float, *, waits: bool
) -> Question | None:
    """A question as the budgets have room for it; None: there may be room when requests in progress have ended.

    What is promised is the most that the request can take, so that no budget is ever passed. Where that does not fit but what is
    likely does, the promises of others are waited for, which are mostly given back; without any, or without ``waits``, the answer
    is limited to what is left.

    Raises:
        BudgetReachedError: a budget has no room for what the request is likely to take.
    """
    available, likely = tuple(rooms), likely_of(question, price)
    if _fits(question, price, available):
        return question
    for room in available:
        taken = room.used if waits else room.used + room.promised
        if taken + likely.of(room.budget.unit) > room.budget.limit:
            raise reached(room, likely, now)
    if waits and any(room.promised for room in available if not _fits(question, price, (room,))):
        return None
    longest = bisect_left(
        range(LIKELY_SHARE, WHOLE), True, key=lambda share: not _fits(_shortened(question, share + 1), price, available)
    )
    return _shortened(question, LIKELY_SHARE + longest)


def _fits(question: Question, price: Price | None, rooms: Iterable[Room]) -> bool:
    most = most_of(question, price)
    return all(most.of(room.budget.unit) <= room.left() for room in rooms)


def _shortened(question: Question, share: int) -> Question:
    """A question whose answer has a share, per mille, of its room."""
    thinking = question.thinking_tokens * share // WHOLE
    return replace(
        question,
        most_tokens=max(1, question.most_tokens * share // WHOLE),
        thinking_tokens=thinking if thinking >= min(LEAST_THINKING_TOKENS, question.thinking_tokens) else 0,
    )


def reached(room: Room, likely: Amount, now: float) -> BudgetReachedError:
    """Why a budget stops a person: which one, how much of it was used, when it renews, and what to do."""
    budget = room.budget
    shown = _tokens if budget.unit is BudgetUnit.tokens else dollars
    promised = f", {shown(room.promised)} are promised to requests in progress" if room.promised else ""
    message = (
        f"the model budget of {_of(budget.scope, room.whose)} is reached: {shown(room.used)} of {shown(budget.limit)} are used"
        f"{promised}, and the next request is likely to take {shown(likely.of(budget.unit))}"
    )
    return BudgetReachedError(Failure(FailureCode.budget, message, _fix(budget, now)), budget)


def _fix(budget: Budget, now: float) -> str:
    without = "a new command with `--author compiler` asks no model"
    if budget.scope is BudgetScope.job:
        return f"A job's budget does not renew. An operator can raise `{budget.setting}`, then `/kernel retry` goes on; {without}."
    at = datetime.fromtimestamp(day_start(now) + 86_400, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"It renews at {at}, then `/kernel retry` goes on. An operator can raise `{budget.setting}`; {without}."


def _of(scope: BudgetScope, whose: str) -> str:
    return {
        BudgetScope.job: "this job",
        BudgetScope.person: f"{whose} for today",
        BudgetScope.repository: f"{whose} for today",
        BudgetScope.installation: "this installation of the bot for today",
    }[scope]


def _tokens(count: int) -> str:
    return f"{count:,} tokens"


ANSWERED = "answered"


class AskProviders(Protocol):
    """How a question is put to the providers that may answer it: with what retries, and whom next."""

    def __call__(self, question: Question, providers: Sequence[Provider], cancelled: Callable[[], bool]) -> Answer:
        """The first answer.

        Raises:
            ModelError: there is none.
        """
        ...


@dataclass(frozen=True)
class RequestEnd:
    """How one attempt of a request ended: ``answered`` or its trouble, and what it took."""

    request_id: str  # the ledger's
    outcome: str
    usage: Usage
    duration_s: float


# Endings of requests that a provider has read and begun to answer, or may have.
READ_AT_LEAST = frozenset(
    {ANSWERED, *(it.value for it in (Trouble.malformed, Trouble.truncated, Trouble.overdue, Trouble.cancelled))}
)


def charged(ending: RequestEnd, most: Amount, price: Price | None) -> tuple[Usage, int | None]:
    """What a request used and cost, in micro-dollars; where a server does not count, the most that it can have."""
    if ending.usage == Usage() and ending.outcome in READ_AT_LEAST:
        # A server that does not count is no reason to let a budget go without end.
        return Usage(input_tokens=most.input_tokens, output_tokens=most.output_tokens), most.micro_dollars
    return ending.usage, cost(ending.usage, price)


@dataclass(frozen=True)
class Reservation:
    """A request that may be made: its id, and its question, whose answer may be shorter than was asked for."""

    request_id: str
    question: Question


class RequestLedger(Protocol):
    def reserve(self, provider: Provider, question: Question, cancelled: Callable[[], bool]) -> Reservation:
        """Reserve what a request can use; where the budget has no room, wait for requests in progress.

        Raises:
            BudgetReachedError: a budget has no room for it.
            ModelError: it was cancelled while it waited.
        """
        ...

    def answered(self, ending: RequestEnd) -> None:
        """Note an answer; the reservation is settled when the answer is kept."""
        ...

    def failed(self, ending: RequestEnd) -> None:
        """Settle an attempt without an answer."""
        ...


class Metered:
    """A provider whose every attempt goes through the book. An attempt that breaks in neither way stays promised.

    ``began`` is called when an answer begins to stream in, by providers that others wait for because of their caches.
    """

    def __init__(self, provider: Provider, ledger: RequestLedger, began: Callable[[], None] = lambda: None) -> None:
        self._provider = provider
        self._ledger = ledger
        self._began = began

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._provider.name

    @property
    def model(self) -> str:
        """The model's name."""
        return self._provider.model

    def ask(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
        """Ask once.

        Raises:
            ModelError: there is no answer.
            BudgetReachedError: nothing was asked, because a budget has no room for it.
        """
        promise = self._ledger.reserve(self._provider, question, cancelled)
        request_id, started = promise.request_id, time.monotonic()
        try:
            answer = self._asked(promise.question, timeout_s, cancelled)
        except ModelError as error:
            self._ledger.failed(RequestEnd(request_id, error.trouble.value, error.usage, time.monotonic() - started))
            raise
        self._ledger.answered(RequestEnd(request_id, ANSWERED, answer.usage, time.monotonic() - started))
        return answer

    def _asked(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
        if isinstance(self._provider, PrefixCache):
            return self._provider.ask(question, timeout_s, cancelled, self._began)
        return self._provider.ask(question, timeout_s, cancelled)


def ask_in_order(question: Question, providers: Sequence[Provider], cancelled: Callable[[], bool]) -> Answer:
    """Ask each provider once until one answers, without retries; for providers that are never busy, such as a recording.

    Raises:
        ModelError: none answers; the last one's.
    """
    *others, last = providers
    for provider in others:
        try:
            return provider.ask(question, NO_PATIENCE_S, cancelled)
        except ModelError:
            if cancelled():
                raise
    return last.ask(question, NO_PATIENCE_S, cancelled)


NO_PATIENCE_S = 600.0


@dataclass(frozen=True)
class Models:
    """The models that a worker may ask: those configured, in order, or a recording of them."""

    providers: tuple[Provider, ...] = ()
    ask: AskProviders = ask_in_order
    # Makes of a question what is sent and kept: with the tokens of the settings, without secrets.
    prepare: Callable[[Question], Question] = lambda question: question
    paid: bool = True  # False: a replay, which takes nothing of any budget
    by_purpose: Mapping[str, tuple[Provider, ...]] = field(default_factory=dict)  # where settings name other models

    def providers_for(self, question: Question) -> tuple[Provider, ...]:
        """Who may be asked a question, in order."""
        return self.by_purpose.get(question.purpose, self.providers)


def no_models() -> Models:
    """None."""
    return Models()
