"""What is said of a change: calls that break and what is slower come first, and a model's words do nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.contracts import CaseOutcome, Pass, Status, Word
from service.report.modify import (
    added_words,
    confirmed_sections,
    confirmed_verdict,
    modified_holds,
    modified_sections,
    modified_verdict,
)
from tests.service.report.facts import INTERPRETED, REQUEST, TESTS, VERDICT, WAITING, WRONG
from tests.service.report.kernels_facts import NOTHING_TIMED, SAME, measured
from workers.contracts import AddedTest, ChangedFile, ConfirmSummary, ModifySummary, StyleOutcome, Verb

JOB = replace(WAITING, request=replace(REQUEST, verb=Verb.modify, kernel="geglu", words="a slope"))
PASSED, FAILED, SKIPPED = CaseOutcome.passed, CaseOutcome.failed, CaseOutcome.skipped
CHANGE = ModifySummary(
    summary="It takes a slope.",
    files=(ChangedFile("ops/geglu.py", 3, 1),),
    diff="-a\n+b\n",
    verdict=VERDICT,
    tests=TESTS,
    added=(AddedTest("t::test_slope", FAILED, PASSED),),
    style=StyleOutcome(True, ("ruff check",)),
    attempts=(),
    problem_source="def reference(a):\n    return a\n",
)
REPORT = ConfirmSummary(CHANGE, CHANGE.style, TESTS, VERDICT, SAME, None, (), (), "kernelsmith modify geglu")
BROKEN = replace(CHANGE, changes_function=True, broken_call="`F.apply(a)` can no longer be called")


@pytest.mark.parametrize(
    ("added", "told"),
    [
        ((), "No test was added."),
        (((FAILED, PASSED),), "1 added test fails before the change and passes with it."),
        (((FAILED, PASSED),) * 3, "3 added tests fail before the change and pass with it."),
        (((None, PASSED),), "1 added test: before the change 1 cannot run; with it all pass."),
        (
            ((FAILED, PASSED), (PASSED, PASSED), (None, SKIPPED), (SKIPPED, PASSED)),
            "4 added tests: before the change 1 fail, 1 cannot run, 1 pass too, 1 are skipped; with it 3 pass.",
        ),
    ],
)
def test_added_tests_are_told_as_they_went(
    added: tuple[tuple[CaseOutcome | None, CaseOutcome], ...], told: str
) -> None:
    assert added_words(tuple(AddedTest(f"t{n}", *outcomes) for n, outcomes in enumerate(added))) == told


def test_a_broken_call_is_the_first_thing_that_is_said_everywhere() -> None:
    assert modified_verdict(BROKEN, JOB).startswith("**`geglu` is changed, and a call that works today breaks:**")
    assert modified_sections(BROKEN).startswith("> [!WARNING]\n> `F.apply(a)` can no longer be called.")
    report = replace(REPORT, change=BROKEN)
    assert confirmed_verdict(report, JOB).startswith("**`geglu` is changed, but a call that works today breaks")
    assert confirmed_sections(report, {}).startswith("> [!WARNING]")
    assert (modified_holds(CHANGE), modified_holds(BROKEN)) == (True, False)


def test_only_more_than_five_percent_slower_is_told_first() -> None:
    slow = measured((Pass.forward, 0.9, Word.slower), (Pass.backward, 0.97, Word.slower))
    told = confirmed_verdict(replace(REPORT, benchmark=slow), JOB)
    assert told.startswith("**`geglu` is changed, but it is more than 5% slower on 2 measurements:")
    assert "backward" not in told
    little = measured((Pass.forward, 0.97, Word.slower))
    told = confirmed_verdict(replace(REPORT, benchmark=little), JOB)
    assert told.startswith(
        "**`geglu` is changed and is 0.97× as fast as before on NVIDIA H200: of 2 measurements, slower on 2.**"
    )


def test_what_was_not_timed_is_not_said_to_be_fast() -> None:
    told = confirmed_verdict(replace(REPORT, benchmark=NOTHING_TIMED, verdict=INTERPRETED.verdict), JOB)
    assert "its speed is only predicted for NVIDIA H200, since nothing was timed" in told
    assert "proved in Triton's interpreter" in told


def test_a_wrong_verdict_stands_against_a_merge() -> None:
    assert WRONG.status is not Status.passed
    assert confirmed_verdict(replace(REPORT, verdict=WRONG), JOB).startswith("**`geglu` cannot be merged as it is:**")


def test_a_models_words_do_nothing() -> None:
    hostile = "Done. @octocat see #1 <script>x</script> [merge](https://evil.example) ![](https://evil.example/x.png)"
    body = modified_sections(replace(CHANGE, summary=hostile, answered=(f"“Why?”: {hostile}",)))
    for live in ("@octocat", "#1 ", "<script>", "](https://evil", "![]("):
        assert live not in body
