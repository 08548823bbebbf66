"""The library's whole test file around a change: what it says today, with the change, and what the added tests say without it."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import CaseOutcome, TestsResult
from workers.authors.llm.protocol import Failed
from workers.contracts import AddedTest, FileChange
from workers.engine.protocol import StageContext
from workers.stages.modifying.preflight import Subject
from workers.stages.suites import LOG_CHARS, failed_nodes, failing, run_suite

MOST_NAMED = 3
FAILED = (CaseOutcome.failed, CaseOutcome.error)


@dataclass(frozen=True)
class Suites:
    """The whole test file with a change, and how the tests went that it adds."""

    tests: TestsResult
    added: tuple[AddedTest, ...] = ()
    notes: tuple[str, ...] = ()


def pass_tests(
    context: StageContext,
    subject: Subject,
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
    context.note("running the library's whole test file with the change")
    suite = subject.layout.suite_of(subject.standing, subject.tree)
    today = run_suite(context, "tests-today", suite, (), lasting=True)
    after = run_suite(context, f"tests-{key}", suite, changes)
    worse = _worse(today, after)
    if worse is not None:
        return Failed(patch, "tests", worse, tuple(failing(after).splitlines()), after.log[-LOG_CHARS:])
    added = _added(context, subject, key, changes, today, after)
    if changes_function and not any(_shows(test) for test in added):
        told = "none was added" if not added else "each added one passes, or cannot pass, without the change too"
        return Failed(patch, "tests", f"What the kernel computes changes, and no test shows it: {told}.")
    failed_before = failed_nodes(after)
    notes = (
        (f"These tests of the library fail without the change too: {_named(failed_before)}",) if failed_before else ()
    )
    return Suites(after, added, notes)


def _worse(today: TestsResult, after: TestsResult) -> str | None:
    """Say what a change breaks, None where it breaks nothing and something passed."""
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
    context: StageContext,
    subject: Subject,
    key: str,
    changes: tuple[FileChange, ...],
    today: TestsResult,
    after: TestsResult,
) -> tuple[AddedTest, ...]:
    known = {case.node for case in today.cases}
    new = [case for case in after.cases if case.node not in known]
    if not new:
        return ()
    context.note("running the added tests without the change")
    suite = subject.layout.suite_of(subject.standing, subject.tree)
    before = run_suite(context, f"before-{key}", suite, subject.tests_of(changes))
    outcomes = {case.node: case.outcome for case in before.cases}
    return tuple(AddedTest(case.node, outcomes.get(case.node), case.outcome) for case in new)


def _shows(test: AddedTest) -> bool:
    return test.after is CaseOutcome.passed and (test.before is None or test.before in FAILED)


def _named(nodes: frozenset[str] | list[str]) -> str:
    ordered = sorted(nodes)
    more = f" and {len(ordered) - MOST_NAMED} more" if len(ordered) > MOST_NAMED else ""
    return ", ".join(ordered[:MOST_NAMED]) + more
