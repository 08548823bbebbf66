"""Beside a GPU a verdict runs few cases in the interpreter, for what a GPU does not show."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import CandidateSource, Status, Verdict
from gpu_runner.verify import judge
from tests.cheats.trial import cheat, proofs, surroundings
from tests.honest.table import source_of


def beside_a_gpu(candidate: CandidateSource, patch: pytest.MonkeyPatch) -> Verdict:
    """The verdict on reglu as of a GPU on which every case passes."""
    patch.setattr(judge, "has_gpu", lambda: True)
    patch.setattr(judge, "_try", lambda *_: judge._Trial())
    patch.setattr(judge._Importing, "_begun", lambda _: None)
    return judge.judge_by(proofs("reglu"), candidate, surroundings())


def test_a_race_that_no_case_shows_on_a_gpu_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = beside_a_gpu(cheat("moved_in_place"), monkeypatch)
    assert (verdict.status, verdict.rule) == (Status.nondeterministic, "race")
    assert verdict.evidence[0].check == "interpreted"


def test_memory_that_a_kernel_was_not_given_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = cheat("moved_in_place").files[0].text.replace("y_ptr + 1 + at", "y_ptr + 70001 + at")
    candidate = cheat("moved_in_place")
    file = candidate.files[0].__class__("candidate.py", text)
    verdict = beside_a_gpu(CandidateSource((file,)), monkeypatch)
    assert verdict.status is Status.out_of_bounds


def test_an_honest_candidate_is_held_against_it_in_two_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = beside_a_gpu(source_of("reglu"), monkeypatch)
    assert verdict.status is Status.passed
    assert [check.name for check in verdict.checks].count("interpreted") == 2


def test_what_the_interpreter_cannot_run_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    text = source_of("reglu").files[0].text
    assert "tl.load" in text
    broken = text.replace(
        "def candidate(", "def candidate(a, b):\n    raise OSError('no such thing here')\n\n\ndef other(", 1
    )
    file = source_of("reglu").files[0].__class__("candidate.py", broken)
    verdict = beside_a_gpu(CandidateSource((file,)), monkeypatch)
    assert verdict.status is Status.passed
    (left_out,) = [check for check in verdict.checks if check.name == "interpreter_left_out"]
    assert "no such thing here" in left_out.workload
