"""Asks a model where a stage goes on without an answer too: why there is none is kept, so that each run decides the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpu_runner.contracts import from_json, to_json
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.engine.protocol import StageContext
from workers.models.protocol import Answer, ModelError, Question, Trouble, Usage

# Endings of one question, which say nothing about the next one.
OF_THE_QUESTION = frozenset({Trouble.refused, Trouble.malformed, Trouble.truncated})
GIVES_WAY = (FailureCode.model, FailureCode.budget)
CANCELLED = Failure(FailureCode.model, "the job was cancelled while a model was asked")


@dataclass(frozen=True)
class Silence:
    """Why nobody answers, in a sentence; asking on would come to the same. ``cure`` is what a person may do."""

    sentence: str
    cure: str | None = None
    code: FailureCode = FailureCode.model

    def note(self) -> str:
        """Say it where a job goes on without a model."""
        return f"No model was asked any further: {self.sentence.rstrip('.')}. What was measured before stands."


@dataclass(frozen=True)
class Mute:
    """One question came to no answer that could be read; another may."""

    status: str  # a trouble
    sentence: str
    usage: Usage = field(default_factory=Usage)


def heard(context: StageContext, key: str, question: Question) -> Answer | Mute | Silence:
    """Give a model's answer, or why there is none; the same in every run of the attempt.

    Raises:
        UserFacingError: the job was cancelled, or what failed has nothing to do with models.
    """

    def ending() -> Any:
        try:
            context.ask(key, question)
        except ModelError as error:
            return _ending(error)
        except UserFacingError as error:
            if error.failure.code not in GIVES_WAY:
                raise
            return {"silence": to_json(Silence(error.failure.message, error.failure.cure, error.failure.code))}
        return {}

    # An answer is kept by itself; what a provider was down for a moment ago it may not be any more in the next run.
    kept = context.memo(f"ending-{key}", ending)
    if "silence" in kept:
        return from_json(Silence, kept["silence"])
    if "mute" in kept:
        return from_json(Mute, kept["mute"])
    return context.ask(key, question)


def _ending(error: ModelError) -> dict[str, Any]:
    if error.trouble is Trouble.cancelled:
        raise UserFacingError(CANCELLED) from error
    if error.trouble in OF_THE_QUESTION:
        return {"mute": to_json(Mute(error.trouble.value, str(error), error.usage))}
    return {"silence": to_json(Silence(str(error)))}
