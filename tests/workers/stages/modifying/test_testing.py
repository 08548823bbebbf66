from __future__ import annotations

from gpu_runner.contracts import CaseOutcome, TestCase, TestsResult
from tests.workers.stages.library import SUITE
from tests.workers.stages.modifying.changing import modifying, ran
from workers.authors.llm.protocol import Failed
from workers.contracts import AddedTest, FileChange
from workers.stages.bench import open_modify
from workers.stages.proof import Suites, pass_tests

CHANGES = (FileChange(SUITE, "def test_values():\n    assert True\n"),)


def held(
    today: TestsResult, after: TestsResult, before: TestsResult | None = None, *, function: bool = False
) -> Suites | Failed:
    made = {"tests tests-today": today, "tests tests-k": after, "tests before-k": before}
    context = modifying(made)
    return pass_tests(open_modify(context), "k", CHANGES, "a patch", changes_function=function)


def sentence(found: Suites | Failed) -> str:
    assert isinstance(found, Failed)
    assert (found.status, found.source) == ("tests", "a patch")
    return found.sentence


def one(outcome: CaseOutcome, node: str = "test_values") -> TestsResult:
    return TestsResult(False, 1, (TestCase(f"{SUITE}::{node}", outcome, 0.1),), f"1 {outcome.value}", "the log's end")


TODAY = ran(nodes=("test_values",))


def test_what_passed_before_must_pass() -> None:
    assert sentence(held(TODAY, ran("test_values"), ran())) == (
        f"The library's tests fail with the change: {SUITE}::test_values"
    )


def test_what_failed_before_may_fail_and_is_told() -> None:
    nodes = ("test_values", "test_old")
    found = held(ran("test_old", nodes=nodes), ran("test_old", nodes=nodes))
    assert isinstance(found, Suites)
    assert found.notes == (f"These tests of the library fail without the change too: {SUITE}::test_old",)


def test_each_added_test_must_pass() -> None:
    assert sentence(held(TODAY, ran("test_slope"))).endswith("::test_slope")


def test_a_test_may_not_vanish_or_be_skipped() -> None:
    both = ran(nodes=("test_values", "test_old"))
    assert "are not there with the change" in sentence(held(both, TODAY))
    skipped = TestsResult(
        True, 0, (*TODAY.cases, *one(CaseOutcome.skipped, "test_old").cases), "1 passed, 1 skipped", ""
    )
    assert "or are skipped" in sentence(held(both, skipped))


def test_a_run_in_which_nothing_passes_is_no_pass() -> None:
    assert "No test of the library passes" in sentence(held(one(CaseOutcome.failed), one(CaseOutcome.failed)))
    nothing = TestsResult(False, 2, (), "error during collection", "E   SyntaxError")
    found = held(TODAY, nothing)
    assert "error during collection" in sentence(found)
    assert isinstance(found, Failed)
    assert found.log == "E   SyntaxError"


def test_a_run_that_does_not_end_well_is_no_pass() -> None:
    killed = TestsResult(False, None, TODAY.cases, "killed at the limit", "")
    assert "killed at the limit" in sentence(held(TODAY, killed))


def test_added_tests_are_run_without_the_change_too() -> None:
    found = held(TODAY, ran(), ran("test_slope"), function=True)
    assert isinstance(found, Suites)
    assert found.added == (AddedTest(f"{SUITE}::test_slope", CaseOutcome.failed, CaseOutcome.passed),)


def test_added_tests_that_cannot_be_collected_without_the_change_show_it_as_well() -> None:
    found = held(TODAY, ran(), TestsResult(False, 2, (), "ImportError", ""), function=True)
    assert isinstance(found, Suites)
    assert found.added[0].before is None


def test_a_changed_function_is_shown_by_a_test_that_fails_without_the_change() -> None:
    assert "each added one passes" in sentence(held(TODAY, ran(), ran(), function=True))
    assert "none was added" in sentence(held(TODAY, TODAY, function=True))
    assert isinstance(held(TODAY, ran(), ran()), Suites)
