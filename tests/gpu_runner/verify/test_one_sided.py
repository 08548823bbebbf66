"""Decisions of one outcome in a whole verdict: listed, and where it is demanded nothing is proved."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile, Status, Verdict, VerifyRequest
from gpu_runner.verify.judge import judge
from tests.cheats.trial import cheat, source_of_problem, surroundings

PROBLEM = source_of_problem("reglu")
PLAIN = cheat("rank_four").files[0].text
ASKED = "a.dim() == 4"


def of(text: str) -> CandidateSource:
    return CandidateSource((SourceFile("candidate.py", text),))


def verdict(original: str | None = None, *, both_sides: bool) -> Verdict:
    request = VerifyRequest(PROBLEM, of(PLAIN), original=None if original is None else of(original))
    return judge(request, surroundings(), both_sides=both_sides)


@pytest.mark.slow
def test_a_decision_of_one_outcome_is_listed_and_proves_nothing_where_both_are_demanded() -> None:
    demanded = verdict(both_sides=True)
    assert (demanded.status, demanded.rule) == (Status.unproved, "one-sided")
    assert ASKED in demanded.evidence[0].message
    line = next(number for number, text in enumerate(PLAIN.splitlines(), 1) if ASKED in text)
    assert [evidence.line for evidence in demanded.one_sided if ASKED in evidence.message] == [line]


@pytest.mark.slow
def test_what_stands_may_go_on_to_decide_in_the_same_words() -> None:
    assert verdict(PLAIN.replace("Four dimensions", "Of four dimensions"), both_sides=True).status is Status.passed
