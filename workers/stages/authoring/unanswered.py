"""Questions that nobody answers: asked once in an attempt, and told with what can be done about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpu_runner.contracts import from_json, to_json
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.engine.protocol import StageContext
from workers.models.ledger import BudgetReachedError
from workers.models.protocol import PASSING, Answer, ModelError, Question, Trouble
from workers.models.recording import Refusal

SETTINGS = "An operator has to look at the key and the account (docs/models.md)."
CURES = {
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
    enough: Callable[[Mapping[str, Answer | ModelError]], bool] | None = None,
) -> dict[str, Answer | ModelError]:
    """Ask several questions at once; what nobody answered stays unanswered until the stage's next attempt.

    A trouble that passes is not kept with the question, so that a retry asks again. A search that goes on with the other candidates
    would ask again as well, each time that it comes back from a GPU, and wait for a provider that is down. ``key`` is the memo's.
    With ``enough`` the questions are ended once it says so of what has been answered; what is left is not needed then.
    """
    first: dict[str, Answer | ModelError] = {}

    def missing() -> dict[str, object]:
        first.update(context.ask_until(questions, enough))
        return {name: to_json(Refusal.of(it)) for name, it in first.items() if isinstance(it, ModelError)}

    unanswered = {name: from_json(Refusal, it).error() for name, it in context.memo(key, missing).items()}
    others = {name: question for name, question in questions.items() if name not in unanswered}
    answered = first or (context.ask_all(others) if others else {})
    return {name: unanswered[name] if name in unanswered else answered[name] for name in questions}


def ask_for_repair(
    context: StageContext, key: str, question: Question, attempts: tuple[str, ...]
) -> Answer | ModelError:
    """Ask for a repair. Where a budget has no room for it, what was paid for and judged before, ``attempts``, is told with that.

    Raises:
        UserFacingError: there is no room, or no model.
    """
    try:
        return context.ask_all({key: question})[key]
    except BudgetReachedError as error:
        raise UserFacingError(replace(error.failure, attempts=attempts)) from error


def nobody_answered(errors: Sequence[ModelError], wanted: str, without: str, attempts: tuple[str, ...]) -> Failure:
    """Give the failure where no question for ``wanted`` was answered; ``without`` says how to do without a model."""
    told = "; ".join(dict.fromkeys(str(error).rstrip(".") for error in errors))
    found = dict.fromkeys(error.trouble for error in errors)
    cures = dict.fromkeys(PASSES if trouble in PASSING else CURES.get(trouble, "") for trouble in found)
    cure = " ".join(part for part in (*cures, without) if part)
    return Failure(FailureCode.model, f"no model gave {wanted}: {told}", cure, attempts=attempts)
