"""What is asked of a language model and what comes back, whoever provides it. Pure data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from pydantic import SecretStr

from workers.errors import WorkersError
from workers.redaction import redacted, redacted_json


class Role(StrEnum):
    """The author of a message."""

    user = "user"
    assistant = "assistant"


@dataclass(frozen=True)
class Part:
    """A piece of text; ``stable`` ends a prefix that later questions of the job repeat, so that a provider may cache it."""

    text: str
    stable: bool = False


@dataclass(frozen=True)
class Message:
    """One turn of the conversation, oldest first in a question."""

    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Form:
    """How the answer must look: a tool that the model has to call, whose input, a JSON object by ``schema``, is the answer."""

    name: str
    description: str
    schema: dict[str, Any] = field(hash=False)


@dataclass(frozen=True)
class Question:
    """One request. The same question by ``digest`` has the same recorded answer in a replay."""

    purpose: str  # what it is for: "generate", "repair", ...; the ledger's and the recording's word
    system: tuple[Part, ...]
    messages: tuple[Message, ...]
    form: Form | None = None  # None: the answer is text
    most_tokens: int = 16_000  # of the answer, thinking not counted
    thinking_tokens: int = 0  # 0: no extended thinking
    temperature: float | None = None  # None: the provider's own; for models that take one


@dataclass(frozen=True)
class Usage:
    """Tokens of one request; what was read from a cache is not counted in ``input_tokens``."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_written_tokens: int = 0


@dataclass(frozen=True)
class Answer:
    """A model's answer, untrusted. ``data`` is the form's object, checked against its schema; None where no form was asked for."""

    text: str
    data: dict[str, Any] | None = field(hash=False)
    usage: Usage
    provider: str
    model: str  # as the provider named it in its answer
    request_id: str | None = None  # the provider's, for its support


class Trouble(StrEnum):
    """Why there is no answer."""

    overloaded = "overloaded"  # 529, 503: the same request may succeed later
    rate_limited = "rate_limited"  # 429
    failing = "failing"  # 500 and the like
    unreachable = "unreachable"  # no connection, or it broke off
    overdue = "overdue"  # no answer within the time
    malformed = "malformed"  # not what the protocol or the form says
    truncated = "truncated"  # the answer ended at its token limit
    refused = "refused"  # the model declined
    too_long = "too_long"  # the question does not fit the model's context
    unauthorised = "unauthorised"  # the key is wrong or may not
    rejected = "rejected"  # any other request that the provider does not take, such as an unknown model
    out_of_budget = "out_of_budget"  # ours, not the provider's
    cancelled = "cancelled"  # ours: nobody waits for the answer any more
    not_needed = "not_needed"  # ours: what others answered was enough


# A later try of the same question may succeed; the others need another question, another setting or another provider.
PASSING = frozenset({Trouble.overloaded, Trouble.rate_limited, Trouble.failing, Trouble.unreachable, Trouble.overdue})


class ModelError(WorkersError):
    """No answer. The text is ours and has no key, no prompt and no answer in it; ``usage`` is what was paid all the same."""

    def __init__(
        self,
        trouble: Trouble,
        sentence: str,
        *,
        provider: str = "",
        retry_after_s: float | None = None,
        usage: Usage | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(sentence)
        self.trouble = trouble
        self.provider = provider
        self.retry_after_s = retry_after_s
        self.usage = usage or Usage()
        self.request_id = request_id


class Provider(Protocol):
    """One configured provider with one model. It asks once: retries, budgets and other providers are its caller's."""

    @property
    def name(self) -> str:
        """The provider's name in the configuration, such as ``anthropic``."""
        ...

    @property
    def model(self) -> str:
        """The configured model's name."""
        ...

    def ask(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
        """Ask, streaming; ``cancelled`` is looked at while the answer streams in, and ends the request.

        Raises:
            ModelError: there is no answer that can be used.
        """
        ...


@runtime_checkable
class PrefixCache(Provider, Protocol):
    """A provider that reads the start of a question from its cache once it has begun to answer one that starts so."""

    def prefix(self, question: Question) -> str | None:
        """The cached part of a question, the same for questions that share it; None where there is none."""
        ...

    def ask(
        self,
        question: Question,
        timeout_s: float,
        cancelled: Callable[[], bool],
        began: Callable[[], None] = lambda: None,
    ) -> Answer:
        """Ask as any provider; ``began`` is called once the answer has begun to stream in.

        Raises:
            ModelError: there is no answer that can be used.
        """
        ...


def sendable(text: str) -> str:
    """The text with every half of a surrogate pair replaced, which UTF-8 cannot spell."""
    return text.encode("utf-8", "replace").decode("utf-8")


def nonblank(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts that say something; the mark of a blank part falls back on the part before it."""
    kept: list[Part] = []
    for part in parts:
        if part.text.strip():
            kept.append(Part(sendable(part.text), part.stable))
        elif part.stable and kept:
            kept[-1] = Part(kept[-1].text, stable=True)
    return tuple(kept)


def turns(question: Question, provider: str) -> tuple[Message, ...]:
    """The non-empty messages, consecutive ones of one role merged, since some servers refuse them otherwise.

    Raises:
        ModelError: nothing is asked.
    """
    merged: list[Message] = []
    for message in question.messages:
        parts = nonblank(message.parts)
        if not parts:
            continue
        if merged and merged[-1].role is message.role:
            merged[-1] = Message(message.role, merged[-1].parts + parts)
        else:
            merged.append(Message(message.role, parts))
    if not merged:
        raise ModelError(Trouble.rejected, "the question is empty", provider=provider)
    return tuple(merged)


@dataclass(frozen=True)
class Redacted:
    """A question without secrets, and how many of each kind were in it."""

    question: Question
    counts: Mapping[str, int] = field(hash=False)


def redacted_question(question: Question, secrets: Iterable[str] = ()) -> Redacted:
    """The question with every part of it redacted. The form is the program's own and stays as it is."""
    known = tuple(secrets)
    counts: Counter[str] = Counter()

    def clean(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        kept = []
        for part in parts:
            text, kinds = redacted(part.text, known)
            counts.update(kinds)
            kept.append(replace(part, text=text))
        return tuple(kept)

    system = clean(question.system)
    messages = tuple(Message(message.role, clean(message.parts)) for message in question.messages)
    return Redacted(replace(question, system=system, messages=messages), dict(counts))


def redacted_answer(answer: Answer, secrets: Iterable[str] = ()) -> Answer:
    """The answer with its text and every string of its object redacted, as all that comes of it is stored."""
    known = tuple(secrets)

    def clean(text: str) -> str:
        return redacted(text, known)[0]

    return replace(answer, text=clean(answer.text), data=redacted_json(answer.data, clean))


@dataclass(frozen=True)
class Endpoint:
    """Where a provider is asked, with which model and key, and how long silence is borne."""

    name: str  # in the configuration
    model: str
    base_url: str
    key: SecretStr | None = None
    connect_s: float = 10.0
    quiet_s: float = 120.0  # without any byte
    proxy: SecretStr | None = None  # with its user and password
