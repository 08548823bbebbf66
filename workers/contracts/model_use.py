"""What language models were asked and took: since the ledger began, and in a recording."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelRequests:
    """Requests to one provider for one purpose with the same outcome: answered, a trouble, or lost."""

    provider: str
    purpose: str
    outcome: str
    count: int
    duration_s: float


@dataclass(frozen=True)
class ModelAmount:
    """What one model took: ``unit`` is a kind of tokens, such as ``input_tokens``, or ``micro_dollars``."""

    provider: str
    model: str
    unit: str
    amount: int


@dataclass(frozen=True)
class ModelUse:
    """All of it."""

    requests: tuple[ModelRequests, ...] = ()
    amounts: tuple[ModelAmount, ...] = ()


@dataclass(frozen=True)
class RequestUse:
    """One request to a provider. What was read from a cache is not counted in ``input_tokens``."""

    provider: str
    model: str
    outcome: str  # answered, a trouble, or lost
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_written_tokens: int
    micro_dollars: int | None = None  # None: the model has no price
    duration_s: float | None = None  # None: nobody measured it


@dataclass(frozen=True)
class QuestionUse:
    """One question with all requests that were made for it."""

    purpose: str  # generate, repair, ...
    digest: str  # SHA-256 of the question, by whose first twelve digits a replay names it
    characters: int  # of all that is sent, the form of the answer included
    stable_characters: int  # of the start that other questions of the job repeat, so that a provider can cache it
    answer_characters: int | None  # None: there is no answer
    most_output_tokens: int  # of the answer
    most_thinking_tokens: int  # beside the answer; 0: the question asks for no extended thinking
    requests: tuple[RequestUse, ...] = ()


@dataclass(frozen=True)
class UseSum:
    """The sum over questions."""

    questions: int
    requests: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_written_tokens: int
    micro_dollars: int | None  # of the requests whose model has a price; None: of none
    unpriced_requests: int
    duration_s: (
        float | None
    )  # one after the other; questions that are asked at once take less. None: nobody measured any
    characters: int
    stable_characters: int
    answer_characters: int


@dataclass(frozen=True)
class RecordingUse:
    """All questions in order, and their sums: by purpose, in the order in which each came first, and of all."""

    questions: tuple[QuestionUse, ...]
    purposes: tuple[tuple[str, UseSum], ...]
    total: UseSum
