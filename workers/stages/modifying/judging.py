"""One proposal, from an answer to a change that may be pushed: place, style, values, the library's tests, the full verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from gpu_runner.contracts import Status, Verdict
from workers.authors.llm.protocol import ChangeAnswer, Failed, Fault
from workers.contracts import FileChange, StyleOutcome
from workers.engine.protocol import StageContext
from workers.layouts.existing import own_path
from workers.layouts.regions import changed_beside
from workers.stages.modifying.confines import objection
from workers.stages.modifying.diffs import diff
from workers.stages.modifying.preflight import Subject
from workers.stages.modifying.proof import Judge, broken_call, failed_by, full_verdict, judge_of, quick_look
from workers.stages.modifying.styling import styled
from workers.stages.modifying.testing import Suites, pass_tests

BROKEN = (
    "{told}, and nobody is asked (--auto): a change that breaks a call needs a person, or a problem that was given with "
    "the request. Keep the call as it is today, such as by a default."
)


class Step(IntEnum):
    """How far a proposal came, the last thing that it was held against."""

    answer = 0  # it could not be read
    place = 1  # where and how much it changes
    style = 2
    problem = 3  # as it shall be
    call = 4  # as it stands today, and the screen
    values = 5  # a smoke test
    tests = 6
    verdict = 7  # on all sizes


@dataclass(frozen=True)
class Fell:
    """A proposal that may not be pushed, and why; ``changes`` are the files as it left them."""

    failed: Failed
    step: Step
    changes: tuple[FileChange, ...] = ()
    problem: str | None = None  # that came with it


@dataclass(frozen=True)
class Proved:
    """A change that may be pushed."""

    changes: tuple[FileChange, ...]
    answer: ChangeAnswer
    judge: Judge
    style: StyleOutcome
    suites: Suites
    verdict: Verdict
    broken: str | None = None  # what becomes of the call as it stands today
    notes: tuple[str, ...] = ()


def proposed_changes(answer: ChangeAnswer, subject: Subject) -> tuple[FileChange, ...]:
    """Give the files as a proposal leaves them, those alone that then differ from what stands, in the layout's order."""
    texts, known = dict(answer.files), subject.changeable.paths
    ordered = [path for path in known if path in texts] + sorted(set(texts) - set(known))
    return tuple(FileChange(path, texts[path]) for path in ordered if texts[path] != subject.tree.read(path))


def judged(
    context: StageContext, key: str, subject: Subject, answer: ChangeAnswer, changes: tuple[FileChange, ...]
) -> Proved | Fell:
    """Hold one proposal against everything, the cheapest first; ``key`` is its own within the attempt.

    Raises:
        UserFacingError: the GPU host, or the style check's tool, failed.
    """
    result = _judged(context, key, subject, answer, changes)
    return replace(result, problem=answer.problem) if isinstance(result, Fell) else result


def _judged(
    context: StageContext, key: str, subject: Subject, answer: ChangeAnswer, changes: tuple[FileChange, ...]
) -> Proved | Fell:
    patch = diff(changes, subject.tree)
    refused = objection(changes, subject.changeable, subject.tree)
    if refused is not None:
        return Fell(Failed(patch, refused.fault.value, refused.sentence), Step.place, changes)
    tidy = styled(context, f"style-{key}", subject, changes, patch)
    if isinstance(tidy, Failed):
        return Fell(tidy, Step.style, changes)
    changes, patch = tidy.changes, diff(tidy.changes, subject.tree)
    judge = judge_of(context, key, subject, answer.problem, changes, patch)
    if isinstance(judge, Failed):
        return Fell(judge, Step.problem, changes)
    beside = _beside(subject, judge, changes)
    if beside is not None:
        return Fell(Failed(patch, Fault.path.value, beside), Step.place, changes)
    broken = broken_call(context, key, subject, judge, changes, patch)
    if isinstance(broken, Failed):
        return Fell(broken, Step.call, changes)
    if broken is not None and context.request.options.auto and subject.wanted is None:
        return Fell(Failed(patch, "call", BROKEN.format(told=broken)), Step.call, changes)
    judge = quick_look(context, key, subject, judge, changes, patch)
    if isinstance(judge, Failed):
        return Fell(judge, Step.values, changes)
    suites = pass_tests(context, subject, key, changes, patch, changes_function=judge.changes_function)
    if isinstance(suites, Failed):
        return Fell(suites, Step.tests, changes)
    verdict = full_verdict(context, f"verify-{key}", subject, judge, changes)
    if verdict.status is not Status.passed:
        return Fell(failed_by(verdict, patch, judge), Step.verdict, changes)
    changes = (*changes, *_own_problem(subject, judge))
    return Proved(changes, answer, judge, tidy.outcome, suites, verdict, broken, (*tidy.notes, *suites.notes))


def _beside(subject: Subject, judge: Judge, changes: tuple[FileChange, ...]) -> str | None:
    """Say what a change touches of the kernel's file that no verdict on its calls would see; None where that is nothing."""
    path, calls = subject.standing.path, (subject.problem.call, judge.problem.call)
    after = next((change.text for change in changes if change.path == path), None)
    name = None if after is None else changed_beside(subject.text(path), after, calls)
    if name is None:
        return None
    return (
        f"`{name}` stands in `{path}` as well and has nothing to do with `{judge.problem.call}`, so that nothing proves it: "
        "it stays as it is. A problem whose CALL uses it lets it change."
    )


def _own_problem(subject: Subject, judge: Judge) -> tuple[FileChange, ...]:
    """Give the repository's own problem file as it must be afterwards, where it keeps one."""
    path = own_path(subject.standing.name)
    if not judge.changes_function or subject.tree.read(path) is None:
        return ()
    return (FileChange(path, judge.problem.source),)
