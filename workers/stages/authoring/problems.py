"""Has a model make a problem of words or code, until it parses and can be traced."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpu_runner.contracts import Action, CaptureRequest, CaptureResult, from_json
from workers.authors.llm import problem_question, read_problem
from workers.authors.llm.protocol import Failed, ProblemAnswer, ProblemBrief, UnusableAnswer
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.engine.protocol import StageContext
from workers.models.protocol import ModelError
from workers.stages.authoring.unanswered import nobody_answered
from workers.stages.authoring.wishes import Wish
from workers.stages.workbench import answer_of

ROUNDS = 3
CAPTURE = "capture"


@dataclass(frozen=True)
class Captured:
    """What tracing a problem gave, and the facts of the host that did it."""

    result: CaptureResult
    host: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Understood:
    """A problem that can be traced, and what its author assumed and replied."""

    answer: ProblemAnswer
    captured: Captured


def problem_brief(name: str, wish: Wish) -> ProblemBrief:
    """Give the brief of a wish."""
    return ProblemBrief(name, wish.request, wish.code, wish.origin, wish.beside)


def understood(context: StageContext, brief: ProblemBrief) -> Understood:
    """Give the problem of a brief; what is wrong with one is told in the next round.

    Raises:
        UserFacingError: no round gives a problem that can be traced, nobody answers, or the host failed.
    """
    tried: list[str] = []
    failed: Failed | None = None
    for number in range(1, ROUNDS + 1):
        context.note(f"asking a model for the problem, round {number} of {ROUNDS}")
        asked = replace(brief, failed=failed)
        try:
            answer = context.ask(f"problem-{number}", problem_question(asked))
        except ModelError as error:
            failure = nobody_answered([error], "a problem", "A problem in code needs no model.", tuple(tried))
            raise UserFacingError(failure) from error
        try:
            read = read_problem(answer, asked)
        except UnusableAnswer as unusable:
            source = (answer.data or {}).get("source")
            failed = Failed(source if isinstance(source, str) else "", unusable.fault.value, str(unusable))
        else:
            captured = capture(context, read.source, f"{CAPTURE}-{number}")
            found = captured.result
            if found.error is None:
                return Understood(read, captured)
            where = (f"line {found.line}",) if found.line else ()
            evidence = (*where, *((found.cure,) if found.cure else ()))
            failed = Failed(read.source, CAPTURE, found.error, evidence)
        tried.append(f"round {number} ended as `{failed.status}`: {failed.sentence}")
    message = f"the model gave no problem that can be used: {failed.sentence}" if failed else "nothing was asked"
    cure = "Say it more closely: inputs with their shapes, what is computed, and one size; or paste it as code."
    raise UserFacingError(Failure(FailureCode.problem, message, cure, attempts=tuple(tried)))


def capture(context: StageContext, source: str, key: str = CAPTURE) -> Captured:
    """Give a problem's graph, or why it has none.

    Raises:
        UserFacingError: the GPU host failed.
    """
    answer = context.gpu(key, CaptureRequest(source), Action.capture)
    return Captured(from_json(CaptureResult, answer_of(answer)), answer.host)
