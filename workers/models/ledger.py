"""The gate that every request to a provider goes through: promised in the ledger before it is made, settled when it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workers.models.protocol import Answer, ModelError, PrefixCache, Provider, Question, Usage

ANSWERED = "answered"


class Ask(Protocol):
    """How a question is put to the providers that may answer it: with what patience, and whom next."""

    def __call__(self, question: Question, providers: Sequence[Provider], cancelled: Callable[[], bool]) -> Answer:
        """Give the first answer.

        Raises:
            ModelError: there is none.
        """
        ...


@dataclass(frozen=True)
class Ending:
    """How one attempt of a request ended: ``answered`` or its trouble, and what it took."""

    request_id: str  # the ledger's
    outcome: str
    usage: Usage
    duration_s: float


@dataclass(frozen=True)
class Promise:
    """A request that may be made: its id, and its question, whose answer may be shorter than was asked for."""

    request_id: str
    question: Question


class Book(Protocol):
    """Where requests are written down."""

    def reserve(self, provider: Provider, question: Question, cancelled: Callable[[], bool]) -> Promise:
        """Promise what a request can take; requests in progress are waited for where there is no room beside them.

        Raises:
            BudgetReachedError: a budget has no room for it.
            ModelError: it was cancelled while it waited.
        """
        ...

    def answered(self, ending: Ending) -> None:
        """Take in that there is an answer; it is settled with what is kept of it."""
        ...

    def failed(self, ending: Ending) -> None:
        """Settle an attempt that came to nothing."""
        ...


class Metered:
    """A provider whose every attempt goes through the book. An attempt that breaks in neither way stays promised.

    ``began`` is called when an answer begins to stream in, by providers that others wait for because of their caches.
    """

    def __init__(self, provider: Provider, book: Book, began: Callable[[], None] = lambda: None) -> None:
        self._provider = provider
        self._book = book
        self._began = began

    @property
    def name(self) -> str:
        """Give the provider's name."""
        return self._provider.name

    @property
    def model(self) -> str:
        """Give the model's name."""
        return self._provider.model

    def ask(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
        """Ask once.

        Raises:
            ModelError: there is no answer.
            BudgetReachedError: nothing was asked, because a budget has no room for it.
        """
        promise = self._book.reserve(self._provider, question, cancelled)
        request_id, started = promise.request_id, time.monotonic()
        try:
            answer = self._asked(promise.question, timeout_s, cancelled)
        except ModelError as error:
            self._book.failed(Ending(request_id, error.trouble.value, error.usage, time.monotonic() - started))
            raise
        self._book.answered(Ending(request_id, ANSWERED, answer.usage, time.monotonic() - started))
        return answer

    def _asked(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
        if isinstance(self._provider, PrefixCache):
            return self._provider.ask(question, timeout_s, cancelled, self._began)
        return self._provider.ask(question, timeout_s, cancelled)


def ask_in_order(question: Question, providers: Sequence[Provider], cancelled: Callable[[], bool]) -> Answer:
    """Ask each provider once until one answers, without patience; for providers that are never busy, such as a recording.

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
    ask: Ask = ask_in_order
    # Makes of a question what is sent and kept: with the tokens of the settings, without secrets.
    prepare: Callable[[Question], Question] = lambda question: question
    paid: bool = True  # False: a replay, which takes nothing of any budget
    by_purpose: Mapping[str, tuple[Provider, ...]] = field(default_factory=dict)  # where settings name other models

    def providers_for(self, question: Question) -> tuple[Provider, ...]:
        """Give who may be asked a question, in order."""
        return self.by_purpose.get(question.purpose, self.providers)


def no_models() -> Models:
    """Give none."""
    return Models()
