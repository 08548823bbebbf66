"""Beside an original a candidate is called with more dimensions than the problem names, and with fewer."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch

from gpu_runner.contracts import CandidateSource, SourceFile, Status, VerifyRequest, parse_problem
from gpu_runner.verify.cases import Content
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.judge import choose_cases, judge_by
from gpu_runner.verify.opening import opened, reference_session
from gpu_runner.verify.original import learn
from gpu_runner.verify.proof import Proof
from gpu_runner.verify.ranks import _Lead, _widest, in_other_ranks
from gpu_runner.verify.truth import Oracle
from tests.cheats.trial import source_of_problem, surroundings
from tests.honest.table import source_of

REGLU, TAKE, SUM = (source_of(name).files[0].text for name in ("reglu", "take_rows", "row_sum_expand"))
ROWS = "a.numel() // n_cols"
ANY_INDEX = TAKE.replace("(index.shape[0], n_cols)", "(*index.shape, n_cols)").replace(
    "index.shape[0]", "index.numel()"
)
INFERENCE = """
def candidate(a, b):
    if not torch.is_grad_enabled():
        a, b = a.contiguous(), b.contiguous()
        y, n_cols = torch.empty_like(a), a.shape[-1]
        _forward[(ROWS,)](a, b, y, n_cols, BLOCK=256)
        return y
    return ReGLU.apply(a, b)
""".replace("ROWS", ROWS)
APART = REGLU + INFERENCE  # with code of its own for calls without gradients


def of(text: str) -> CandidateSource:
    return CandidateSource((SourceFile("candidate.py", text),))


@functools.cache
def cases(name: str = "reglu") -> tuple[Proof, ...]:
    source = source_of_problem(name)
    problem, draws = parse_problem(source), Draws("5eed" * 8)
    request = VerifyRequest(source, CandidateSource(()), dtypes=("float32",))
    planned = choose_cases(request, problem, True, draws)
    plain = [case for case in planned if case.content is Content.ordinary and max(case.size_of.values()) < 300]
    with opened(reference_session("reference", source, surroundings()), surroundings()) as session:
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


def test_of_four_dimensions_three_leading_ones_have_several_elements() -> None:
    assert [min(proof.outputs[0].shape) > 1 for proof in cases() if proof.case.dimensions == 2] == [True]


def test_upstream_gradients_of_more_dimensions_lie_apart_and_in_another_order() -> None:
    _, *others = cases()
    lying = [given.view().stride() for proof in others for given in proof.upstream if given is not None]
    several = [stride for stride in lying if len(stride) > 2]
    assert any(stride[0] < stride[1] for stride in several)  # the first two dimensions the other way round
    views = [given.view() for proof in others for given in proof.upstream if given is not None]
    assert any(v.dim() > 2 and v.stride(0) > v.shape[1] * v.stride(1) for v in views)  # a gap after each slice


def test_the_widest_case_of_several_rows_has_another_rank_too() -> None:
    first = cases()[0]
    wide = replace(first, case=replace(first.case, sizes=(("T", 4), ("I", 5000))), inputs={"a": torch.zeros(4, 5000)})
    flat = replace(first, case=replace(first.case, sizes=(("T", 1), ("I", 9000))), inputs={"a": torch.zeros(1, 9000)})
    assert _widest([wide, first, flat], _Lead("T", frozenset(), frozenset())) == [wide]


def test_each_is_called_without_gradients_too() -> None:
    _, *others = cases()
    assert all({"no_grad", "plain"} <= {use.kind for use in proof.uses} for proof in others)
    assert any(use.kind == "subset" for proof in others for use in proof.uses)


def test_one_row_without_its_dimension_leaves_a_number_a_row_none() -> None:
    (row,) = [proof for proof in cases("row_sum") if proof.case.dimensions == -1]
    assert row.inputs["x"].dim() == 1
    assert row.outputs[0].shape == tuple(row.outputs[0].truth.exact.shape) == ()
    assert row.upstream[0] is not None and row.upstream[0].shape == ()


def test_the_dimension_with_which_an_output_begins_is_split_where_it_is_an_index_alone() -> None:
    _, *others = cases("take_rows")
    assert {1, 2} == {proof.case.dimensions for proof in others}
    for proof in others:
        table, index = proof.inputs["table"].shape, tuple(proof.inputs["index"].shape)
        assert len(table) == 2
        assert proof.outputs[0].shape == (*index, table[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ROWS, "a.shape[0]"),
        ("a.shape[-1]", "a.shape[1]"),
        ("        n_cols =", "        assert a.dim() == 2\n        n_cols ="),
        (ROWS, "(a.shape[0] if a.dim() > 2 else 1) * (a.shape[-2] if a.dim() > 1 else 1)"),
    ],
    ids=["rows of two dimensions", "columns of two dimensions", "refused", "rows of three dimensions"],
)
def test_a_candidate_for_two_dimensions_alone_is_found_where_the_original_takes_others(before: str, after: str) -> None:
    assert before in REGLU
    verdict = judge_by(cases(), of(REGLU.replace(before, after)), surroundings(), original=of(REGLU))
    assert verdict.status not in (Status.passed, Status.refused)
    assert "dimension" in (verdict.evidence[0].workload or "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "original", "before", "after"),
    [
        ("reglu", APART, INFERENCE, INFERENCE.replace(ROWS, "a.shape[0]")),
        ("take_rows", ANY_INDEX, "_take[(index.numel(),)]", "_take[(index.shape[0],)]"),
        ("row_sum", SUM, "BLOCK=512", "BLOCK=256"),
    ],
    ids=["without gradients", "index of two dimensions", "honest, a number a row"],
)
def test_a_successor_of_an_original_for_any_rank_is_held_against_it(
    problem: str, original: str, before: str, after: str
) -> None:
    assert before in original
    verdict = judge_by(cases(problem), of(original.replace(before, after)), surroundings(), original=of(original))
    is_honest = problem == "row_sum"
    assert (verdict.status is Status.passed) is is_honest, verdict.evidence[:1]
    assert is_honest or "dimension" in (verdict.evidence[0].workload or "")


@pytest.mark.slow
def test_where_the_original_takes_two_dimensions_alone_nothing_is_asked() -> None:
    narrow = of(REGLU.replace(ROWS, "a.shape[0]"))
    assert judge_by(cases(), of(REGLU), surroundings(), original=of(REGLU)).status is Status.passed
    standing = learn(narrow, cases(), surroundings())
    assert [proof.case.dimensions for proof in standing.proofs if proof.case.dimensions > 0] == []
    assert not standing.dropped
