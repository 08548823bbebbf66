"""The report of a night and the issue of a kernel, sentence by sentence."""

from __future__ import annotations

import pytest

from service.report.nightly import nightly_after, nightly_verdict, regression_issue
from tests.service.report.facts import job
from workers.contracts import Failure, FailureCode, JobState, NightChange, NightKernel, NightlySummary, RegressionUpdate

GOOD, BAD = "a" * 40, "b" * 40
UNKNOWN = NightKernel("dyt", "dyt.py", skipped=Failure(FailureCode.problem, "nothing says what it computes"))
SLOWER = NightChange("k", "full", "T=64", "time_us", "confirmed", "band", GOOD, BAD, 1.1, 1.09, 1.11)
WRONG = NightChange("k", "full", "all", "wrong_values", "confirmed", "values", GOOD, BAD, 1.0, None, None)


def night(*kernels: NightKernel, known: tuple[str, ...] = ()) -> NightlySummary:
    return NightlySummary(kernels, (), BAD, "NVIDIA H200", known, (), 7200.0, 60.0)


def test_a_commit_at_which_all_that_can_be_measured_is_known_is_nothing_to_do() -> None:
    assert nightly_verdict(night(UNKNOWN, known=("geglu",)), job(JobState.done)) == (
        f"**Nothing to do at `{BAD[:12]}`:** every kernel that can be measured already was at this commit."
    )
    assert "Nothing could be measured" in nightly_verdict(night(UNKNOWN), job(JobState.done))


def test_values_that_were_not_proved_are_named_in_the_verdict() -> None:
    told = nightly_verdict(night(NightKernel("k", "k.py", 6, unproved="it took too long")), job(JobState.done))
    assert told.endswith("in 1 kernel. Values unproved: `k`.")


def test_values_that_stay_wrong_have_a_next_step() -> None:
    summary = night(NightKernel("k", "k.py", 1, wrong="element 3 is off"))
    assert nightly_after(summary, job(JobState.done), None) == "fix `k`; `/kernel verify k` shows the details."  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "how"), [(SLOWER, "confirmed by three interleaved runs"), (WRONG, "Values were verified three times")]
)
def test_the_issue_says_how_its_changes_were_found(change: NightChange, how: str) -> None:
    update = RegressionUpdate("k", "NVIDIA H200", BAD, (change,), True, "off" if change is WRONG else None)
    assert how in regression_issue(update, "1")
    assert ("interleaved" in regression_issue(update, "1")) == (change is SLOWER)
