"""A candidate may raise in some cases beyond a problem's own workloads, but not where the original has an answer."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch

from gpu_runner.contracts import CandidateSource, SourceFile, Status, VerifyRequest, parse_problem
from gpu_runner.errors import ChildError
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.judge import choose_cases, judge_by, may_refuse, prove
from gpu_runner.verify.peer import NO_PEER
from gpu_runner.verify.proof import Proof
from tests.cheats.trial import source_of_problem, surroundings
from tests.honest.table import source_of

REGLU = source_of("reglu").files[0].text
CALL = "    return ReGLU.apply(a, b)\n"
GUARD = "    if a.numel() == 0:\n        raise ValueError('expected rows')\n"


def of(text: str) -> CandidateSource:
    return CandidateSource((SourceFile("candidate.py", text),))


@functools.cache
def cases() -> tuple[Proof, ...]:
    source = source_of_problem("reglu")
    problem = parse_problem(source)
    request = VerifyRequest(source, CandidateSource(()), dtypes=("float32",))
    planned = choose_cases(request, problem, True, Draws("5eed" * 8))
    chosen = [planned[0], *(case for case in planned if case.is_empty)]
    return tuple(prove(problem, chosen, surroundings())[0])


def test_a_division_by_zero_is_let_pass_where_the_reference_has_no_number() -> None:
    first = cases()[0]
    proof, error = replace(first, case=replace(first.case, may_raise=True)), ChildError("ZeroDivisionError", "by zero")
    assert not may_refuse(proof, NO_PEER, error)
    nothing = [
        replace(item, truth=replace(item.truth, exact=torch.full_like(item.truth.exact, torch.nan)))
        for item in proof.outputs
    ]
    assert may_refuse(replace(proof, outputs=tuple(nothing)), NO_PEER, error)
    assert not may_refuse(replace(first, outputs=tuple(nothing)), NO_PEER, error)


@pytest.mark.slow
def test_what_the_original_answers_is_not_refused() -> None:
    assert CALL in REGLU
    refusing, answering = of(REGLU.replace(CALL, GUARD + CALL)), of(REGLU)
    for original in (None, of(REGLU.replace(CALL, GUARD + GUARD + CALL))):
        verdict = judge_by(cases(), refusing, surroundings(), original=original)
        assert verdict.status is Status.passed, verdict.evidence
    verdict = judge_by(cases(), refusing, surroundings(), original=answering)
    assert verdict.status is Status.launch_error
    assert "expected rows" in verdict.evidence[0].message
