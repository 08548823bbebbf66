"""One proposed change against everything, the cheapest first: place, style, problem, call, values, tests, the full verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from gpu_runner.contracts import CaseOutcome, Problem, ProblemError, Status, TestsResult, Verdict, parse_problem
from workers.authors.llm.failures import MAX_LOG, failed_verdict
from workers.authors.llm.protocol import AnswerFault, ChangeAnswer, Failed
from workers.contracts import AddedTest, Failure, FailureCode, FileChange, StyleOutcome, UserFacingError
from workers.layouts.existing import is_of, own_path
from workers.layouts.regions import changed_outside_calls
from workers.stages.bench import SAY_PROBLEM, ModifyBench
from workers.stages.confines import diff, violation, within
from workers.stages.gate import failed_nodes, failing, verdict_failure
from workers.strategies.source import fingerprint

FAILS = "The library's own style check fails on the change."
UNSTYLED = (
    "The library's style check objects to these files without the change too, so they are left as they were written."
)


@dataclass(frozen=True)
class Styled:
    """Files after the target's own formatter went over them."""

    changes: tuple[FileChange, ...]
    outcome: StyleOutcome
    notes: tuple[str, ...] = ()


def styled(bench: ModifyBench, key: str, changes: tuple[FileChange, ...], patch: str) -> Styled | Failed:
    """Run the style check on the changed files, with its fixes.

    Raises:
        UserFacingError: the tool, or the target's configuration, cannot be used.
    """
    bench.context.note("running the library's style check")
    fixed, outcome = bench.gate.style(key, bench.layout, bench.tree, changes)
    if outcome.passed and within(fixed, bench.changeable, bench.tree):
        return Styled(fixed, outcome)
    # A file that breaks its own library's rules already is not put right on the way.
    existing = tuple(FileChange(change.path, bench.text(change.path)) for change in changes)
    tidy, today = bench.gate.style(f"{key}-today", bench.layout, bench.tree, existing)
    if today.passed and tidy == existing:
        return Failed(patch, "style", FAILS, log=outcome.log[-MAX_LOG:])
    return Styled(changes, replace(outcome, passed=False), (UNSTYLED,))


# The library's whole test file around a change: today, with the change, and what the added tests say without it.

MOST_NAMED = 3
FAILED = (CaseOutcome.failed, CaseOutcome.error)


@dataclass(frozen=True)
class Suites:
    """The whole test file with a change, and how the tests went that it adds."""

    tests: TestsResult
    added: tuple[AddedTest, ...] = ()
    notes: tuple[str, ...] = ()


def pass_tests(
    bench: ModifyBench,
    key: str,
    changes: tuple[FileChange, ...],
    patch: str,
    *,
    changes_function: bool = False,
) -> Suites | Failed:
    """Run the whole test file with a change, and hold it against the same file without.

    What failed before may fail; what passed before must pass, and each added test too. Where the function itself changes, an
    added test must have failed without the change.

    Raises:
        UserFacingError: the GPU host failed.
    """
    bench.context.note("running the library's whole test file with the change")
    suite = bench.layout.suite_of(bench.kernel, bench.tree)
    today = bench.gate.tests("tests-today", suite, lasting=True)
    after = bench.gate.tests(f"tests-{key}", suite, changes)
    worse = _worse(today, after)
    if worse is not None:
        return Failed(patch, "tests", worse, tuple(failing(after).splitlines()), after.log[-MAX_LOG:])
    added = _added(bench, key, changes, today, after)
    if changes_function and not any(_shows(test) for test in added):
        why = "none was added" if not added else "each added one passes, or cannot pass, without the change too"
        return Failed(patch, "tests", f"What the kernel computes changes, and no test shows it: {why}.")
    failed_before = failed_nodes(after)
    notes = (
        (f"These tests of the library fail without the change too: {_named(failed_before)}",) if failed_before else ()
    )
    return Suites(after, added, notes)


def _worse(today: TestsResult, after: TestsResult) -> str | None:
    """What a change breaks, None where it breaks nothing and something passed."""
    new = sorted(failed_nodes(after) - failed_nodes(today))
    if new:
        return f"The library's tests fail with the change: {_named(new)}"
    passed = {case.node for case in after.cases if case.outcome is CaseOutcome.passed}
    if not passed:
        return f"No test of the library passes with the change: {after.summary}"
    lost = sorted({case.node for case in today.cases if case.outcome is CaseOutcome.passed} - passed)
    if lost:
        return f"Tests that pass today are not there with the change, or are skipped: {_named(lost)}"
    if not after.passed and not failed_nodes(after):
        return f"The library's test file does not end well with the change: {after.summary}"
    return None


def _added(
    bench: ModifyBench,
    key: str,
    changes: tuple[FileChange, ...],
    today: TestsResult,
    after: TestsResult,
) -> tuple[AddedTest, ...]:
    known = {case.node for case in today.cases}
    new = [case for case in after.cases if case.node not in known]
    if not new:
        return ()
    bench.context.note("running the added tests without the change")
    suite = bench.layout.suite_of(bench.kernel, bench.tree)
    before = bench.gate.tests(f"before-{key}", suite, bench.tests_of(changes))
    outcomes = {case.node: case.outcome for case in before.cases}
    return tuple(AddedTest(case.node, outcomes.get(case.node), case.outcome) for case in new)


def _shows(test: AddedTest) -> bool:
    return test.after is CaseOutcome.passed and (test.before is None or test.before in FAILED)


def _named(nodes: frozenset[str] | list[str]) -> str:
    ordered = sorted(nodes)
    more = f" and {len(ordered) - MOST_NAMED} more" if len(ordered) > MOST_NAMED else ""
    return ", ".join(ordered[:MOST_NAMED]) + more


# The rules by which the runner says that the original, not the candidate, does not fit a problem.
NOT_THE_ORIGINAL = frozenset({"original", "problem"})
ALONE = (
    "What stands cannot be called as this problem calls it, so the change is held to what a new kernel must do, inputs in any "
    "memory layout among it, and nothing is let pass because the original does it too."
)
NO_CALL = "its CALL does not call what the kernel's file defines, with as many arguments as that takes"


@dataclass(frozen=True)
class Judge:
    """How a change is judged. ``against_original``: the original computes it too, so that what it does is allowed."""

    problem: Problem
    changes_function: bool
    against_original: bool = True


def judge_existing(bench: ModifyBench) -> ModifyBench:
    """Judge the existing kernel against its problem, and complete a problem that came with the request.

    Raises:
        UserFacingError: the problem does not describe what the kernel computes today.
    """
    bench.context.note("holding what stands today against its problem")
    verdict = _verify(bench, "verify-today", bench.problem)
    if verdict.status is not Status.passed:
        failure = verdict_failure(verdict, "library's")
        message = f"the problem does not say what `{bench.kernel.name}` computes today: {failure.message}"
        fix = f"Correct the reference or its CALL. {SAY_PROBLEM.format(name=bench.kernel.name)}"
        raise UserFacingError(Failure(FailureCode.problem, message, fix, failure.line, failure.log))
    wanted = bench.wanted
    if wanted is None or not bench.can_call(wanted):
        return bench
    if _verify(bench, "verify-given", wanted).status is Status.passed:
        # It is what the kernel computes already, in other words or at other sizes: nothing that it shall become.
        return replace(bench, problem=wanted, wanted=None)
    return bench


def judge_of(
    bench: ModifyBench, key: str, proposed: str | None, changes: tuple[FileChange, ...], patch: str
) -> Judge | Failed:
    """The problem that a change must solve: the person's, else the one that came with the change, else that of today.

    Raises:
        UserFacingError: the GPU host failed.
    """
    problem: Problem | None = bench.wanted
    if problem is None and proposed is not None:
        try:
            problem = parse_problem(proposed)
        except ProblemError as error:
            return Failed(patch, "problem", f"The problem cannot be used: {error.message} {error.fix or ''}".rstrip())
        if fingerprint(problem.source) == fingerprint(bench.problem.source):
            problem = None
    if problem is None:
        return Judge(bench.problem, changes_function=False)
    if not is_of(problem, _main_text(bench, changes)):
        return Failed(patch, "problem", f"The problem cannot be used: {NO_CALL}.")
    bench.context.note("tracing the problem as it shall be")
    captured = bench.gate.capture(f"capture-{key}", problem.source).result
    if captured.error is not None:
        sentence = f"The problem cannot be used: {captured.error} {captured.fix or ''}"
        return Failed(patch, "problem", sentence.rstrip())
    return Judge(problem, changes_function=True, against_original=bench.can_call(problem))


def quick_look(
    bench: ModifyBench, key: str, judge: Judge, changes: tuple[FileChange, ...], patch: str
) -> Judge | Failed:
    """A smoke test of a change; returns the judge, which by then knows whether the original can be compared with.

    Raises:
        UserFacingError: the GPU host failed.
    """
    bench.context.note("a smoke test of the changed kernel's values")
    verdict = _verify(bench, f"quick-{key}", judge.problem, changes, against_original=judge.against_original)
    if judge.changes_function and judge.against_original and _original_is_another(verdict):
        judge = replace(judge, against_original=False)
        verdict = _verify(bench, f"quick-{key}-alone", judge.problem, changes, against_original=False)
    return judge if verdict.status is Status.passed else _failed(verdict, patch, judge)


def broken_call(
    bench: ModifyBench, key: str, judge: Judge, changes: tuple[FileChange, ...], patch: str
) -> str | None | Failed:
    """The result of today's call, None where it is still what it was.

    Here the changed files are screened against the original, whose own lines are no fault of a change; so this comes before the
    change is judged without the original.

    Raises:
        UserFacingError: the GPU host failed.
    """
    if not judge.changes_function:
        return None
    bench.context.note("calling the changed kernel as it is called today")
    verdict = _verify(bench, f"old-{key}", bench.problem, changes)
    refused = verdict.status in (Status.refused, Status.unproved) and verdict.rule is not None
    if verdict.status is Status.cheating or refused:
        return _failed(verdict, patch, replace(judge, against_original=True))
    if not is_of(bench.problem, _main_text(bench, changes)):
        return f"`{bench.problem.call}` can no longer be called"
    if verdict.status is Status.passed:
        return None
    first = f": {verdict.evidence[0].message.rstrip('.')}" if verdict.evidence else ""
    return f"`{bench.problem.call}` no longer gives what it gave, status `{verdict.status.value}`{first}"


def full_verdict(bench: ModifyBench, key: str, judge: Judge, changes: tuple[FileChange, ...]) -> Verdict:
    """Have a change judged on all sizes.

    Raises:
        UserFacingError: the GPU host failed.
    """
    bench.context.note("proving the changed kernel on all sizes")
    return _verify(bench, key, judge.problem, changes, against_original=judge.against_original, quick=False)


def _failed(verdict: Verdict, patch: str, judge: Judge) -> Failed:
    return failed_verdict(verdict, patch, () if judge.against_original else (ALONE,))


def _verify(
    bench: ModifyBench,
    key: str,
    problem: Problem,
    changes: tuple[FileChange, ...] = (),
    *,
    against_original: bool = True,
    quick: bool = True,
) -> Verdict:
    candidate = bench.form(problem, changes)
    if not against_original:
        # Screened beside the original they were already, by ``broken_call``; without it, lines that stand there would be blamed.
        changed = {change.path for change in changes}
        candidate = replace(candidate, screened=tuple(path for path in candidate.screened if path not in changed))
    original = bench.form(problem) if against_original else None
    verdict = bench.gate.verify(key, problem, candidate, original=original, quick=quick, lasting=not changes)
    if verdict.status is Status.environment_error:
        # It says nothing of the change: no other one would do better.
        raise UserFacingError(verdict_failure(verdict, "model"))
    return verdict


def _original_is_another(verdict: Verdict) -> bool:
    return verdict.status is Status.refused and verdict.rule in NOT_THE_ORIGINAL


def _main_text(bench: ModifyBench, changes: tuple[FileChange, ...]) -> str:
    path = bench.kernel.path
    after = next((change.text for change in changes if change.path == path), None)
    return bench.text(path) if after is None else after


BROKEN = (
    "{told}, and nobody is asked (--auto): a change that breaks a call needs a person, or a problem that was given with "
    "the request. Keep the call as it is today, such as by a default."
)


class ProofStep(IntEnum):
    """How far a proposal came: the last check that it reached."""

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
    step: ProofStep
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


def proposed_changes(answer: ChangeAnswer, bench: ModifyBench) -> tuple[FileChange, ...]:
    """The files of a proposal that differ from the present ones, in the layout's order."""
    texts, known = dict(answer.files), bench.changeable.paths
    ordered = [path for path in known if path in texts] + sorted(set(texts) - set(known))
    return tuple(FileChange(path, texts[path]) for path in ordered if texts[path] != bench.tree.read(path))


def judged(bench: ModifyBench, key: str, answer: ChangeAnswer, changes: tuple[FileChange, ...]) -> Proved | Fell:
    """Put one proposal through every check, the cheapest first; ``key`` is its own within the attempt.

    Raises:
        UserFacingError: the GPU host, or the style check's tool, failed.
    """
    result = _judged(bench, key, answer, changes)
    return replace(result, problem=answer.problem) if isinstance(result, Fell) else result


def _judged(bench: ModifyBench, key: str, answer: ChangeAnswer, changes: tuple[FileChange, ...]) -> Proved | Fell:
    patch = diff(changes, bench.tree)
    refused = violation(changes, bench.changeable, bench.tree)
    if refused is not None:
        return Fell(Failed(patch, refused.fault.value, refused.sentence), ProofStep.place, changes)
    tidy = styled(bench, f"style-{key}", changes, patch)
    if isinstance(tidy, Failed):
        return Fell(tidy, ProofStep.style, changes)
    changes, patch = tidy.changes, diff(tidy.changes, bench.tree)
    judge = judge_of(bench, key, answer.problem, changes, patch)
    if isinstance(judge, Failed):
        return Fell(judge, ProofStep.problem, changes)
    unproved = _unproved(bench, judge, changes)
    if unproved is not None:
        return Fell(Failed(patch, AnswerFault.path.value, unproved), ProofStep.place, changes)
    broken = broken_call(bench, key, judge, changes, patch)
    if isinstance(broken, Failed):
        return Fell(broken, ProofStep.call, changes)
    if broken is not None and bench.context.request.options.auto and bench.wanted is None:
        return Fell(Failed(patch, "call", BROKEN.format(told=broken)), ProofStep.call, changes)
    judge = quick_look(bench, key, judge, changes, patch)
    if isinstance(judge, Failed):
        return Fell(judge, ProofStep.values, changes)
    suites = pass_tests(bench, key, changes, patch, changes_function=judge.changes_function)
    if isinstance(suites, Failed):
        return Fell(suites, ProofStep.tests, changes)
    verdict = full_verdict(bench, f"verify-{key}", judge, changes)
    if verdict.status is not Status.passed:
        return Fell(_failed(verdict, patch, judge), ProofStep.verdict, changes)
    changes = (*changes, *_own_problem(bench, judge))
    return Proved(changes, answer, judge, tidy.outcome, suites, verdict, broken, (*tidy.notes, *suites.notes))


def _unproved(bench: ModifyBench, judge: Judge, changes: tuple[FileChange, ...]) -> str | None:
    """What a change touches of the kernel's file that no verdict on its calls covers; None where there is nothing."""
    path, calls = bench.kernel.path, (bench.problem.call, judge.problem.call)
    after = next((change.text for change in changes if change.path == path), None)
    name = None if after is None else changed_outside_calls(bench.text(path), after, calls)
    if name is None:
        return None
    return (
        f"`{name}` stands in `{path}` as well and has nothing to do with `{judge.problem.call}`, so that nothing proves it: "
        "it stays as it is. A problem whose CALL uses it lets it change."
    )


def _own_problem(bench: ModifyBench, judge: Judge) -> tuple[FileChange, ...]:
    """The repository's own problem file as it must be afterwards, where it keeps one."""
    path = own_path(bench.kernel.name)
    if not judge.changes_function or bench.tree.read(path) is None:
        return ()
    return (FileChange(path, judge.problem.source),)
