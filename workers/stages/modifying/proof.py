"""Whether a change holds: what stands first, then the change beside it, against the problem as it is or as it becomes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpu_runner.contracts import (
    Action,
    CaptureRequest,
    CaptureResult,
    Problem,
    ProblemError,
    Status,
    Verdict,
    VerifyRequest,
    from_json,
    parse_problem,
)
from workers.authors.llm.protocol import Failed
from workers.contracts import Failure, FailureCode, FileChange, UserFacingError
from workers.engine.protocol import StageContext
from workers.layouts.existing import is_of
from workers.stages.modifying.preflight import SAY_PROBLEM, Subject, calls_what_stands
from workers.stages.proving import MAX_EVIDENCE, evidence_line, verdict_failure
from workers.stages.suites import LOG_CHARS
from workers.stages.workbench import SNAPSHOT_FILE, answer_of
from workers.strategies.source import fingerprint

# The rules by which the runner says that the original, not the candidate, does not fit a problem.
NOT_THE_ORIGINAL = frozenset({"original", "problem"})
ALONE = (
    "What stands cannot be called as this problem calls it, so the change is held to what a new kernel must do, inputs in any "
    "memory layout among it, and nothing is let pass because the original does it too."
)
NO_CALL = "its CALL does not call what the kernel's file defines, with as many arguments as that takes"


@dataclass(frozen=True)
class Judge:
    """What a change is held against. ``beside``: the original computes it too, so that what it does is allowed."""

    problem: Problem
    changes_function: bool
    beside: bool = True


def hold_what_stands(context: StageContext, subject: Subject) -> Subject:
    """Hold the kernel as it stands against its problem, and settle what a problem means that came with the request.

    Raises:
        UserFacingError: the problem does not say what the kernel computes today.
    """
    context.note("holding what stands today against its problem")
    verdict = _verify(context, "verify-today", subject, subject.problem)
    if verdict.status is not Status.passed:
        failure = verdict_failure(verdict, "library's")
        message = f"the problem does not say what `{subject.standing.name}` computes today: {failure.message}"
        cure = f"Correct the reference or its CALL. {SAY_PROBLEM.format(name=subject.standing.name)}"
        raise UserFacingError(Failure(FailureCode.problem, message, cure, failure.line, failure.log))
    wanted = subject.wanted
    if wanted is None or not calls_what_stands(wanted, subject):
        return subject
    if _verify(context, "verify-given", subject, wanted).status is Status.passed:
        # It is what the kernel computes already, in other words or at other sizes: nothing that it shall become.
        return replace(subject, problem=wanted, wanted=None)
    return subject


def judge_of(
    context: StageContext, key: str, subject: Subject, proposed: str | None, changes: tuple[FileChange, ...], patch: str
) -> Judge | Failed:
    """Give the problem that a change must solve: the person's, else the one that came with the change, else that of today.

    Raises:
        UserFacingError: the GPU host failed.
    """
    problem: Problem | None = subject.wanted
    if problem is None and proposed is not None:
        try:
            problem = parse_problem(proposed)
        except ProblemError as error:
            return Failed(patch, "problem", f"The problem cannot be used: {error.message} {error.cure or ''}".rstrip())
        if fingerprint(problem.source) == fingerprint(subject.problem.source):
            problem = None
    if problem is None:
        return Judge(subject.problem, changes_function=False)
    if not is_of(problem, _main_text(subject, changes)):
        return Failed(patch, "problem", f"The problem cannot be used: {NO_CALL}.")
    context.note("tracing the problem as it shall be")
    result = context.gpu(f"capture-{key}", CaptureRequest(problem.source), Action.capture)
    captured = from_json(CaptureResult, answer_of(result))
    if captured.error is not None:
        told = f"The problem cannot be used: {captured.error} {captured.cure or ''}"
        return Failed(patch, "problem", told.rstrip())
    return Judge(problem, changes_function=True, beside=calls_what_stands(problem, subject))


def quick_look(
    context: StageContext, key: str, subject: Subject, judge: Judge, changes: tuple[FileChange, ...], patch: str
) -> Judge | Failed:
    """Have a smoke test of a change made; gives the judge, which by then knows whether the original can stand beside it.

    Raises:
        UserFacingError: the GPU host failed.
    """
    context.note("a smoke test of the changed kernel's values")
    verdict = _verify(context, f"quick-{key}", subject, judge.problem, changes, beside=judge.beside)
    if judge.changes_function and judge.beside and _original_is_another(verdict):
        judge = replace(judge, beside=False)
        verdict = _verify(context, f"quick-{key}-alone", subject, judge.problem, changes, beside=False)
    return judge if verdict.status is Status.passed else failed_by(verdict, patch, judge)


def broken_call(
    context: StageContext, key: str, subject: Subject, judge: Judge, changes: tuple[FileChange, ...], patch: str
) -> str | None | Failed:
    """Say what becomes of the call as it stands today, None where it still gives what it gave.

    Here the changed files are screened, beside the original, whose own lines are no fault of a change; so this comes before the
    change is judged without the original.

    Raises:
        UserFacingError: the GPU host failed.
    """
    if not judge.changes_function:
        return None
    context.note("calling the changed kernel as it is called today")
    verdict = _verify(context, f"old-{key}", subject, subject.problem, changes)
    refused = verdict.status in (Status.refused, Status.unproved) and verdict.rule is not None
    if verdict.status is Status.cheating or refused:
        return failed_by(verdict, patch, replace(judge, beside=True))
    if not is_of(subject.problem, _main_text(subject, changes)):
        return f"`{subject.problem.call}` can no longer be called"
    if verdict.status is Status.passed:
        return None
    first = f": {verdict.evidence[0].message.rstrip('.')}" if verdict.evidence else ""
    return f"`{subject.problem.call}` no longer gives what it gave, status `{verdict.status.value}`{first}"


def full_verdict(
    context: StageContext, key: str, subject: Subject, judge: Judge, changes: tuple[FileChange, ...]
) -> Verdict:
    """Have a change judged on all sizes.

    Raises:
        UserFacingError: the GPU host failed.
    """
    context.note("proving the changed kernel on all sizes")
    return _verify(context, key, subject, judge.problem, changes, beside=judge.beside, quick=False)


def failed_by(verdict: Verdict, patch: str, judge: Judge) -> Failed:
    """Give a verdict as a model reads it."""
    found = verdict.evidence[:MAX_EVIDENCE]
    log = next((item.log for item in found if item.log), "")
    sentence = found[0].message if found else verdict.status.value
    told = (*map(evidence_line, found), *(() if judge.beside else (ALONE,)))
    return Failed(patch, verdict.status.value, sentence, told, log[-LOG_CHARS:])


def _verify(
    context: StageContext,
    key: str,
    subject: Subject,
    problem: Problem,
    changes: tuple[FileChange, ...] = (),
    *,
    beside: bool = True,
    quick: bool = True,
) -> Verdict:
    candidate = subject.form(problem, changes)
    if not beside:
        # Screened beside the original they were already, by ``broken_call``; without it, lines that stand there would be blamed.
        changed = {change.path for change in changes}
        candidate = replace(candidate, screened=tuple(path for path in candidate.screened if path not in changed))
    original = subject.form(problem) if beside else None
    request = VerifyRequest(problem.source, candidate, quick=quick, original=original)
    files = {SNAPSHOT_FILE: context.request.snapshot}
    verdict = from_json(Verdict, answer_of(context.gpu(key, request, Action.verify, files, lasting=not changes)))
    if verdict.status is Status.environment_error:
        # It says nothing of the change: no other one would do better.
        raise UserFacingError(verdict_failure(verdict, "model"))
    return verdict


def _original_is_another(verdict: Verdict) -> bool:
    return verdict.status is Status.refused and verdict.rule in NOT_THE_ORIGINAL


def _main_text(subject: Subject, changes: tuple[FileChange, ...]) -> str:
    path = subject.standing.path
    found = next((change.text for change in changes if change.path == path), None)
    return subject.text(path) if found is None else found
