"""Questions to models whose answer may never come: what is kept of that, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_runner.contracts import from_json, to_json
from gpu_runner.contracts.envelope import FORMERLY
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.engine.protocol import StageContext
from workers.models.ledger import BudgetReachedError
from workers.models.protocol import PASSING, Answer, ModelError, Question, Trouble, Usage
from workers.models.recording import Refusal

SETTINGS = "An operator has to look at the key and the account (docs/models.md)."
FIXES = {
    Trouble.unauthorised: SETTINGS,
    Trouble.rejected: "An operator has to look at the model's name and its address (docs/models.md).",
    Trouble.too_long: "Ask for less at once, or have an operator configure a model that takes more.",
    Trouble.refused: "Say it in other words, or have an operator configure another model.",
    Trouble.malformed: "The model does not keep to the form; an operator may configure another one.",
    Trouble.out_of_budget: "An operator can raise the limit that is named (docs/models.md, What models may use).",
    Trouble.truncated: "Ask for less at once, or have an operator configure a model that says it shorter.",
}
PASSES = "It may pass with time."


def ask_once(
    context: StageContext,
    questions: Mapping[str, Question],
    key: str = "unanswered",
    should_stop: Callable[[Mapping[str, Answer | ModelError]], bool] | None = None,
) -> dict[str, Answer | ModelError]:
    """Ask several questions at once; what was not answered stays unanswered until the stage's next attempt.

    A trouble that passes is not kept with the question, so that a retry asks again. A search that goes on with the other candidates
    would ask again as well, each time that it resumes after a GPU result, and wait for one that is down. ``key`` is the memo's.
    Once ``should_stop`` is true of the answers the other questions are cancelled and kept as not needed.
    """
    first: dict[str, Answer | ModelError] = {}

    def missing() -> dict[str, object]:
        first.update(context.ask_until(questions, should_stop))
        return {name: to_json(Refusal.of(it)) for name, it in first.items() if isinstance(it, ModelError)}

    unanswered = {name: from_json(Refusal, it).error() for name, it in context.memo(key, missing).items()}
    others = {name: question for name, question in questions.items() if name not in unanswered}
    answered = first or (context.ask_all(others) if others else {})
    return {name: unanswered[name] if name in unanswered else answered[name] for name in questions}


def ask_for_repair(
    context: StageContext, key: str, question: Question, attempts: tuple[str, ...]
) -> Answer | ModelError:
    """Ask for a repair. Where a budget has no room for it, the failure lists ``attempts``, which were paid for and judged before.

    Raises:
        UserFacingError: there is no room, or no model.
    """
    try:
        return context.ask_all({key: question})[key]
    except BudgetReachedError as error:
        raise UserFacingError(replace(error.failure, attempts=attempts)) from error


def nobody_answered(errors: Sequence[ModelError], wanted: str, without: str, attempts: tuple[str, ...]) -> Failure:
    """The failure where no question for ``wanted`` was answered; ``without`` says how to do without a model."""
    reasons = "; ".join(dict.fromkeys(str(error).rstrip(".") for error in errors))
    troubles = dict.fromkeys(error.trouble for error in errors)
    fixes = dict.fromkeys(PASSES if trouble in PASSING else FIXES.get(trouble, "") for trouble in troubles)
    fix = " ".join(part for part in (*fixes, without) if part)
    return Failure(FailureCode.model, f"no model gave {wanted}: {reasons}", fix, attempts=attempts)


# Endings of one question, which say nothing about the next one.
OF_THE_QUESTION = frozenset({Trouble.refused, Trouble.malformed, Trouble.truncated})
GIVES_WAY = (FailureCode.model, FailureCode.budget)
CANCELLED = Failure(FailureCode.model, "the job was cancelled while a model was asked")


@dataclass(frozen=True)
class Silence:
    """Why no model answers, as a sentence; another question would have the same outcome. ``fix`` is what a person may do."""

    sentence: str
    fix: str | None = field(default=None, metadata={FORMERLY: "cure"})
    code: FailureCode = FailureCode.model

    def note(self) -> str:
        """The note of a job that goes on without a model."""
        return f"No model was asked any further: {self.sentence.rstrip('.')}. What was measured before stands."


@dataclass(frozen=True)
class Mute:
    """One question came to no answer that could be read; another may."""

    status: str  # a trouble
    sentence: str
    usage: Usage = field(default_factory=Usage)


def ask_or_silence(context: StageContext, key: str, question: Question) -> Answer | Mute | Silence:
    """A model's answer, or why there is none; the same in every run of the attempt.

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
            return {"silence": to_json(Silence(error.failure.message, error.failure.fix, error.failure.code))}
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
