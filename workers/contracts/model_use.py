"""What language models were asked and took so far, in sums; no word of a question or an answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelRequests:
    """The requests to one provider for one purpose that ended alike; ``outcome`` is answered, a trouble, or lost."""

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
