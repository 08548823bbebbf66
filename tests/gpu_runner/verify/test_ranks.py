"""Beside an original a candidate is called with more dimensions than the problem names, and with fewer."""

from __future__ import annotations

import functools

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile, Status, VerifyRequest, parse_problem
from gpu_runner.verify.cases import Content
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.judge import choose_cases, judge_by
from gpu_runner.verify.opening import opened, reference_session
from gpu_runner.verify.original import learn
from gpu_runner.verify.proof import Proof
from gpu_runner.verify.ranks import in_other_ranks
from gpu_runner.verify.truth import Oracle
from tests.cheats.trial import source_of_problem, surroundings
from tests.honest.table import source_of

REGLU = source_of("reglu").files[0].text
ROWS = "a.numel() // n_cols"
PROBLEM = source_of_problem("reglu")


def of(text: str) -> CandidateSource:
    return CandidateSource((SourceFile("candidate.py", text),))


@functools.cache
def cases() -> tuple[Proof, ...]:
    problem, draws = parse_problem(PROBLEM), Draws("5eed" * 8)
    request = VerifyRequest(PROBLEM, of(REGLU), dtypes=("float32",))
    planned = choose_cases(request, problem, True, draws)
    plain = [case for case in planned if case.content is Content.ordinary and max(case.size_of.values()) < 300]
    with opened(reference_session("reference", PROBLEM, surroundings()), surroundings()) as session:
        oracle = Oracle.open(problem, session, 7)
        proofs = [proof for case in plain if (proof := oracle.prove(case, None)) is not None]
    return (proofs[0], *in_other_ranks(problem, proofs))


def test_cases_have_one_and_two_dimensions_more_and_one_less() -> None:
    first, *others = cases()
    assert {1, 2, -1} <= {proof.case.dimensions for proof in others}
    assert any("slices apart, dimensions more: 1" in proof.case.label() for proof in others)
    for proof in others:
        (output,) = proof.outputs
        assert output.shape == tuple(proof.inputs["a"].shape) == tuple(proof.laid["b"].view().shape)
        assert proof.gradients["a"] is not None and proof.gradients["a"].shape == output.shape
        assert len(output.shape) == len(first.outputs[0].shape) + proof.case.dimensions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ROWS, "a.shape[0]"),
        ("a.shape[-1]", "a.shape[1]"),
        ("        n_cols =", "        assert a.dim() == 2\n        n_cols ="),
    ],
    ids=["rows of two dimensions", "columns of two dimensions", "refused"],
)
def test_a_candidate_for_two_dimensions_alone_is_found_where_the_original_takes_others(before: str, after: str) -> None:
    assert before in REGLU
    verdict = judge_by(cases(), of(REGLU.replace(before, after)), surroundings(), original=of(REGLU))
    assert verdict.status not in (Status.passed, Status.refused)
    assert "dimension" in (verdict.evidence[0].workload or "")


@pytest.mark.slow
def test_where_the_original_takes_two_dimensions_alone_nothing_is_asked() -> None:
    narrow = of(REGLU.replace(ROWS, "a.shape[0]"))
    assert judge_by(cases(), of(REGLU), surroundings(), original=of(REGLU)).status is Status.passed
    standing = learn(narrow, cases(), surroundings())
    assert [proof.case.dimensions for proof in standing.proofs if proof.case.dimensions > 0] == []
    assert not standing.dropped
