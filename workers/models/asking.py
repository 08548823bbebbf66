"""Asking until somebody answers: tries, waits, the next provider. It does no I/O but through its providers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import SystemRandom

from workers.models.protocol import (
    PASSING,
    Answer,
    Message,
    ModelError,
    Part,
    Provider,
    Question,
    Role,
    Trouble,
    Usage,
    redacted_answer,
    redacted_question,
)

LOOK_UP_S = 1.0  # how long a cancelled wait goes on at most
ENDING = frozenset({Trouble.cancelled, Trouble.out_of_budget})  # no other provider is asked after these


@dataclass(frozen=True)
class RetryPolicy:
    """How long and how often providers are asked."""

    most_tries: int = 4  # of one provider, for one question
    first_wait_s: float = 2.0  # doubled with each try
    longest_wait_s: float = 60.0  # also of what a server asks for; a server that wants more is left
    request_s: float = 600.0  # of one try
    whole_s: float = 1800.0  # of all tries and waits together


@dataclass(frozen=True)
class Try:
    """One request that was made, for the ledger and for people; ``trouble`` is None for the one that was answered."""

    provider: str
    model: str
    trouble: Trouble | None
    sentence: str
    usage: Usage
    seconds: float
    request_id: str | None


@dataclass(frozen=True)
class Asked:
    """An answer, and what it took."""

    answer: Answer
    tries: tuple[Try, ...]
    redacted: Mapping[str, int] = field(hash=False)  # secrets that were taken out of the question, by kind


class NobodyAnsweredError(ModelError):
    """No provider gave an answer that can be used. ``trouble`` and ``retry_after_s`` are the last one's, ``usage`` is of all."""

    def __init__(self, last: ModelError, sentence: str, tries: tuple[Try, ...], redacted: Mapping[str, int]) -> None:
        usage = total(each.usage for each in tries)
        super().__init__(
            last.trouble,
            sentence,
            provider=last.provider,
            retry_after_s=last.retry_after_s,
            usage=usage,
            request_id=last.request_id,
        )
        self.tries = tries
        self.redacted = redacted


@dataclass
class AskContext:
    """The clock and the chance of one asking, replaced in tests."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = SystemRandom().random  # from 0 to 1
    cancelled: Callable[[], bool] = lambda: False
    secrets: tuple[str, ...] = ()  # values that this process holds and no provider may see


@dataclass
class _Asking:
    question: Question  # without secrets
    retry_policy: RetryPolicy
    around: AskContext
    deadline: float
    tries: list[Try] = field(default_factory=list)

    def of(self, provider: Provider) -> Answer:
        """Ask one provider until it answers, or there is no sense in asking it again."""
        question, has_fault, passing = self.question, False, 0
        while True:
            try:
                return self._once(provider, question)
            except ModelError as error:
                if error.trouble in (Trouble.malformed, Trouble.truncated) and not has_fault:
                    question, has_fault = with_fault(self.question, error), True
                    continue
                passing += 1
                wait_s = self._wait_s(error, passing)
                if wait_s is None:
                    raise
                self._wait(wait_s, error)

    def _once(self, provider: Provider, question: Question) -> Answer:
        began = self.around.clock()
        if self.around.cancelled():
            raise ModelError(Trouble.cancelled, "the request was cancelled")
        if began >= self.deadline:
            raise ModelError(Trouble.overdue, f"there was no answer within {self.retry_policy.whole_s:g} s")
        try:
            answer = provider.ask(
                question, min(self.retry_policy.request_s, self.deadline - began), self.around.cancelled
            )
        except ModelError as error:
            self._note(provider, began, error)
            raise
        self._note(provider, began, answer)
        return answer

    def _note(self, provider: Provider, began: float, end: Answer | ModelError) -> None:
        failed = isinstance(end, ModelError)
        self.tries.append(
            Try(
                provider.name,
                provider.model if isinstance(end, ModelError) else end.model,
                end.trouble if isinstance(end, ModelError) else None,
                str(end) if failed else "",
                end.usage,
                self.around.clock() - began,
                end.request_id,
            )
        )

    def _wait_s(self, error: ModelError, passing: int) -> float | None:
        """How long to wait before the same provider is asked again, None where it is not."""
        if error.trouble not in PASSING or passing >= self.retry_policy.most_tries:
            return None
        if error.retry_after_s is not None:
            wait_s = error.retry_after_s
            if wait_s > self.retry_policy.longest_wait_s:
                return None
        else:
            # Half of it by chance: workers that were turned away together do not come back together.
            whole_s = min(self.retry_policy.first_wait_s * 2 ** (passing - 1), self.retry_policy.longest_wait_s)
            wait_s = whole_s * (0.5 + 0.5 * self.around.chance())
        return wait_s if self.around.clock() + wait_s < self.deadline else None

    def _wait(self, wait_s: float, error: ModelError) -> None:
        until = self.around.clock() + wait_s
        while (left := until - self.around.clock()) > 0:
            if self.around.cancelled():
                raise ModelError(Trouble.cancelled, "the wait was cancelled", provider=error.provider)
            self.around.sleep(min(LOOK_UP_S, left))


def ask(
    question: Question,
    providers: Sequence[Provider],
    retry_policy: RetryPolicy | None = None,
    around: AskContext | None = None,
) -> Asked:
    """Ask the providers in their order until one answers. Secrets are taken out of question and answer before anybody sees them.

    Raises:
        NobodyAnsweredError: none did, or the asking was cancelled; it carries every try.
    """
    retry_policy, around = retry_policy or RetryPolicy(), around or AskContext()
    clean = redacted_question(question, around.secrets)
    asking = _Asking(clean.question, retry_policy, around, around.clock() + retry_policy.whole_s)
    failures: list[ModelError] = []
    for provider in providers:
        try:
            answer = redacted_answer(asking.of(provider), around.secrets)
            return Asked(answer, tuple(asking.tries), clean.counts)
        except ModelError as error:
            failures.append(error)
            if error.trouble in ENDING or around.clock() >= asking.deadline:
                break
    if not failures:
        failures.append(ModelError(Trouble.rejected, "no provider of language models is configured"))
    raise NobodyAnsweredError(failures[-1], _sentence(failures, retry_policy), tuple(asking.tries), clean.counts)


def with_fault(question: Question, error: ModelError) -> Question:
    """The question with what was wrong about the last answer at its end; the answer itself is not repeated."""
    text = f"Your last answer was not taken: {error}. Answer the whole question once more. " + (
        "Be much shorter." if error.trouble is Trouble.truncated else "Keep exactly to the form that was asked for."
    )
    fault = Part(text)
    last = question.messages[-1] if question.messages else None
    if last is not None and last.role is Role.user:
        # At the end of the same turn: what a provider has cached of the question stays a prefix of it.
        messages = (*question.messages[:-1], Message(Role.user, (*last.parts, fault)))
    else:
        messages = (*question.messages, Message(Role.user, (fault,)))
    return replace(question, messages=messages)


def total(usages: Iterable[Usage]) -> Usage:
    known = list(usages)
    return Usage(
        sum(each.input_tokens for each in known),
        sum(each.output_tokens for each in known),
        sum(each.cache_read_tokens for each in known),
        sum(each.cache_written_tokens for each in known),
    )


def _sentence(failures: Sequence[ModelError], retry_policy: RetryPolicy) -> str:
    parts = []
    for error in failures:
        waits = error.retry_after_s is not None and error.retry_after_s > retry_policy.longest_wait_s
        later = f", and wants to be asked again in {error.retry_after_s:.0f} s only" if waits else ""
        parts.append(f"{error}{later}")
    return "; ".join(parts)
