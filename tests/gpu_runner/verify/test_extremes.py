"""Large values go as far as the reference can be judged by; what is not finite stays where it belongs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from gpu_runner.contracts import Problem, parse_problem
from gpu_runner.messages import CallForm
from gpu_runner.numerics.compare import Truth, compare
from gpu_runner.verify.cases import Case, Content, Special, is_activation
from gpu_runner.verify.extremes import (
    FAR_ROW,
    LARGE_ROWS,
    ODD_ROWS,
    REACHES,
    SEVERAL_ROWS,
    SPECIAL_ROWS,
    with_large,
    with_odd,
    with_special,
)
from gpu_runner.verify.inputs import DTYPES, filled_of, make_inputs
from gpu_runner.verify.proof import Expected, Proof
from gpu_runner.verify.reach import farthest, with_held
from gpu_runner.verify.telling import passed_over, remark
from gpu_runner.verify.truth import asked_of
from tests.problems import problem_source

SOFTMAX = parse_problem(problem_source("softmax"))
FORM = CallForm("reference", ("x",))
LARGE = Case("large values", (("T", 6), ("V", 40)), "float32", 5, content=Content.large)
ODD = Case("not finite", (("T", 8), ("V", 40)), "float32", 5, content=Content.odd)
INF, NAN = math.inf, math.nan


def stream() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def proof_of(case: Case, exact: torch.Tensor, own: torch.Tensor, problem: Problem = SOFTMAX) -> Proof:
    """A proof of one output, its inputs made as they are for a verdict."""
    item = Expected("output 0", Truth(exact, own), tuple(own.shape), tuple(own.stride()), case.dtype)
    return replace(asked_of(problem, FORM, case), outputs=(item,))


def truth_of(proof: Proof) -> Truth:
    return with_held(proof, SOFTMAX).outputs[0].truth


def test_every_kind_of_row_is_there() -> None:
    large = with_large(torch.randn(6, 50), 1000.0, stream())
    assert len(LARGE_ROWS) == 6
    assert [int((row.abs() > 900).sum()) for row in large] == [0, 1, 50, 1, 50, 50]
    assert (float(large[2].max()), float(large[5].min())) == (pytest.approx(-1000, abs=5), 1000.0)
    assert len(ODD_ROWS) == 10
    draws = [with_odd(torch.randn(10, 50), torch.Generator().manual_seed(seed)) for seed in range(40)]
    kinds = [
        torch.isfinite,
        torch.isnan,
        torch.isfinite,
        torch.isposinf,
        torch.isneginf,
        torch.isneginf,
        torch.isneginf,
        torch.isnan,
        torch.isfinite,
    ]
    for odd in draws:
        assert all(bool((kind(row) | torch.isfinite(row)).all()) for kind, row in zip(kinds, odd, strict=False))
        assert all(bool(torch.isfinite(odd[row]).all()) for row in (0, 2, 8))
        assert all(bool(torch.isfinite(odd[row]).any()) for row in (5, 6))
        assert bool(torch.isneginf(odd[9]).all())
        assert int(torch.isnan(odd[7]).sum()) > 1
    for row in (1, 3, 4):
        counts = {int((~torch.isfinite(odd[row])).sum()) for odd in draws}
        assert 1 in counts
        assert max(counts) > 25


def is_far_off(row: torch.Tensor) -> bool:
    return len(row.unique()) > 1 and bool(row.mean().abs() > FAR_ROW / 2 * row.std())


def test_every_kind_of_special_row_is_there() -> None:
    values = torch.randn(1 + len(SPECIAL_ROWS), 80, generator=torch.Generator().manual_seed(11))
    rows = with_special(values[None], Special.rows, stream())[0]
    ordinary = next(row for row in range(len(rows)) if torch.equal(rows[row], values[row]))
    kinds = {
        "zero": [not row.any() for row in rows],
        "equal": [bool(row.any()) and len(row.unique()) == 1 for row in rows],
        "whole": [len(row.unique()) > 1 and torch.equal(row, row.round()) for row in rows],
        "repeated": [at != ordinary and torch.equal(row, rows[ordinary]) for at, row in enumerate(rows)],
        "far": [is_far_off(row) for row in rows],
        "faint": [bool(row.any()) and float(row.abs().max()) < 0.1 for row in rows],
        "one sign": [len(row.unique()) > 1 and len(row.sign().unique()) == 1 and not is_far_off(row) for row in rows],
        "rising": [len(row.unique()) > 9 and bool((row.diff() > 0).all()) for row in rows],
        "falling": [len(row.unique()) > 9 and bool((row.diff() < 0).all()) for row in rows],
        "peaked": [
            float(row.abs().max()) > 12 * float(row.std()) / 2 and float(row.abs().median()) < 1.5 for row in rows
        ],
    }
    assert all(any(found) for found in kinds.values()), kinds


def test_of_several_special_rows_one_rises() -> None:
    values = torch.randn(SEVERAL_ROWS, 80, generator=torch.Generator().manual_seed(11))
    for seed in range(20):
        rows = with_special(values, Special.rows, torch.Generator().manual_seed(seed))
        assert any(bool((row.diff() > 0).all()) for row in rows)


def test_ties_are_odd_multiples_each_once_in_a_row() -> None:
    for values in (torch.randn(2, 7, 40), torch.randn(9)):
        ties = with_special(values, Special.ties, stream()).reshape(-1, values.shape[-1])
        for row, unit in zip(ties, (0.5, 0.25, 0.125), strict=False):
            assert bool(((row / unit) % 2 == 1).all())
            assert row.unique().numel() == values.shape[-1]


def test_columns_of_a_matrix_are_special_too() -> None:
    values = torch.randn(80, 1 + len(SPECIAL_ROWS), generator=torch.Generator().manual_seed(11))
    draws = [with_special(values, Special.columns, torch.Generator().manual_seed(seed)) for seed in range(4)]
    assert all(bool((drawn == 0).all(0).any()) for drawn in draws)


def test_no_value_lies_beyond_its_dtype() -> None:
    for name, reaches in REACHES.items():
        assert list(reaches) == sorted(reaches, reverse=True)
        assert max(reaches) * 1.2 < torch.finfo(DTYPES[name]).max


def test_inputs_beside_each_other_hold_large_rows_one_after_the_other() -> None:
    problem = parse_problem(problem_source("reglu"))
    made = make_inputs(problem, replace(LARGE, sizes=(("T", 6), ("I", 50)), reach=2.0**15))
    far = {name: [int((row.abs() > 2.0**14).sum()) for row in made[name]] for name in ("a", "b")}
    assert far == {"a": [0, 1, 50, 1, 50, 50], "b": [1, 50, 1, 50, 50, 0]}


def test_parameters_whole_numbers_and_declared_values_keep_their_meaning() -> None:
    rms = parse_problem(problem_source("rms_norm"))
    sizes = (("T", 6), ("H", 40))
    contents = (Content.ordinary, Content.large)
    plain, large = (make_inputs(rms, Case("c", sizes, "float32", 5, content=c, reach=9e9)) for c in contents)
    assert float(large["x"].abs().max()) == pytest.approx(9e9, rel=1e-6)
    assert float(plain["w"].abs().max()) < 5 > float(large["w"].abs().max())
    text = problem_source("softmax").replace('"T V"', '{"dims": "T V", "init": "log_softmax"}')
    sharp = parse_problem(text)
    made = make_inputs(sharp, replace(LARGE, reach=2.0**60))["x"]
    assert torch.allclose(made.exp().sum(-1), torch.ones(6))
    assert float(made.min()) < -25
    assert filled_of(sharp, ODD) == ("x",)
    unusual = make_inputs(sharp, ODD)["x"]
    assert bool((unusual == -math.inf).any()) and bool(unusual.isnan().any())
    take = parse_problem(problem_source("take_rows"))
    assert [spec.name for spec in take.inputs if is_activation(spec)] == ["table"]


def test_values_are_taken_back_until_the_reference_can_be_judged_by() -> None:
    tried = []

    def prove(case: Case) -> Proof:
        tried.append(case.reach)
        exact = torch.ones(6, 40, dtype=torch.float64)
        own = exact.float() if case.reach < 2.0**20 else torch.full((6, 40), INF)
        return proof_of(case, exact, own)

    found = farthest(LARGE, SOFTMAX, prove)
    assert found is not None
    assert tried == [2.0**96, 2.0**60, 2.0**30, 2.0**15]
    assert "values up to 3.28e+04" in found.case.label()


def test_a_reference_that_is_never_right_leaves_the_case_out_and_the_verdict_says_so() -> None:
    def prove(case: Case) -> Proof:
        return proof_of(case, torch.ones(6, 40, dtype=torch.float64), torch.zeros(6, 40))

    assert farthest(LARGE, SOFTMAX, prove) is None
    assert passed_over(LARGE).name == "large_values_left_out"


def test_what_is_not_finite_stays_even_where_nothing_else_is_left() -> None:
    def prove(case: Case) -> Proof:
        return proof_of(case, torch.full((8, 40), NAN, dtype=torch.float64), torch.full((8, 40), NAN))

    found = farthest(ODD, SOFTMAX, prove)
    assert found is not None
    assert not compare(torch.zeros(8, 40), found.outputs[0].truth).passed


def test_an_element_that_the_reference_loses_does_not_count() -> None:
    exact = torch.ones(6, 40, dtype=torch.float64)
    own = exact.float()
    own[1, 2], own[2, 3] = INF, 0.7
    truth = truth_of(proof_of(replace(LARGE, reach=16.0), exact, own))
    got = exact.float()
    got[1, 2], got[2, 3] = NAN, 55.0
    assert compare(got, truth).passed
    got[0, 0] = NAN
    assert compare(got, truth).position == (0, 0)


def test_what_is_beyond_the_largest_number_in_the_truth_and_the_reference_must_overflow() -> None:
    case = replace(LARGE, dtype="float16", reach=1024.0)
    exact = torch.randn((6, 40), generator=stream(), dtype=torch.float64)
    exact[:3] = 1e6
    exact[4, 0] = 65_600.0  # so close that a kernel may round it to the largest number
    truth = truth_of(proof_of(case, exact, exact.half()))
    assert truth.judged is not None
    assert (bool(truth.judged[:3].all()), bool(truth.judged[4, 0])) == (True, False)
    cut = exact.half().clamp(-65_504, 65_504)
    assert compare(exact.half(), truth).passed
    assert compare(cut, truth).level == "nonfinite"
    assert compare(torch.where(torch.isinf(exact.half()), -exact.half(), exact.half()), truth).level == "nonfinite"


def test_a_row_that_is_lost_but_for_its_largest_elements_does_not_count() -> None:
    exact = torch.full((6, 40), 0.01, dtype=torch.float64)
    exact[:, 0] = -1.0  # such as the gradient at a label, which is as large as all the others together
    own = exact.float()
    own[2, 1:] *= 2.0
    truth = truth_of(proof_of(replace(LARGE, reach=16.0), exact, own))
    assert truth.judged is not None
    assert truth.judged.all(-1).tolist() == [True, True, False, True, True, True]


def test_what_float32_cannot_hold_is_allowed_as_the_references_own_error_is() -> None:
    exact = torch.ones(4, 8, dtype=torch.float64)
    shaken = Truth(exact, exact.float(), shaken=(exact * 1.001,))
    assert compare(exact.float() * 1.001, shaken).passed
    assert not compare(exact.float() * 1.01, shaken).passed
    assert not compare(exact.float() * 1.001, Truth(exact, exact.float())).passed


def odd_truth() -> Truth:
    exact = torch.ones(8, 40, dtype=torch.float64)
    exact[1], exact[4, 0], exact[5, 0], exact[3, 1] = NAN, -INF, NAN, INF
    own = exact.float()
    own[5, 0] = INF
    return truth_of(proof_of(ODD, exact, own))


@pytest.mark.parametrize(
    ("place", "value", "passes"),
    [
        ((0, 0), NAN, False),  # of a row that holds nothing odd
        ((1, 0), 1.0, False),  # NaN became a number
        ((1, 0), INF, True),  # not finite, of another kind
        ((4, 0), INF, False),  # another infinity
        ((4, 0), NAN, True),
        ((5, 0), INF, True),  # the reference is NaN in float64, infinite in float32
        ((5, 0), -INF, True),
        ((5, 0), 1.0, False),
        ((3, 1), NAN, True),  # in a row that holds +inf
        ((3, 5), NAN, True),
        ((3, 5), 2.0, False),
    ],
)
def test_what_is_not_finite_must_be_so_in_the_same_way(place: tuple[int, int], value: float, passes: bool) -> None:
    truth = odd_truth()
    got = truth.own.clone()
    assert compare(got, truth).passed
    got[place] = value
    found = compare(got, truth)
    assert found.passed is passes
    assert found.other_kind is (place[0] != 0 and passes)


def test_what_stands_may_be_followed_where_it_swallows_or_loses_a_number() -> None:
    truth = odd_truth()
    got, peer = truth.own.clone(), truth.own.clone()
    got[1], peer[1] = 0.0, 0.0
    found = compare(got, truth, [peer])
    assert (found.passed, found.by_peer) == (True, True)
    got[0, 3], peer[0, 3] = 7.0, NAN
    assert compare(got, truth, [peer]).by_peer
    got[2, 3] = 7.0
    assert not compare(got, truth, [peer]).passed


def test_a_row_of_which_minus_infinity_makes_nan_in_the_reference_may_be_nan_whole() -> None:
    proof = asked_of(SOFTMAX, FORM, ODD)
    x = proof.inputs["x"]
    row = int((torch.isneginf(x).any(-1) & torch.isfinite(x).any(-1) & ~torch.isnan(x).any(-1)).nonzero()[0])
    finite = torch.isfinite(x[row])
    for beside, passes in ((NAN, True), (0.0, False)):  # as of a norm, and as of a softmax, which masks it
        exact = torch.ones(x.shape, dtype=torch.float64)
        exact[row, ~finite] = beside
        item = truth_of(proof_of(ODD, exact, exact.float()))
        got = exact.float()
        got[row] = NAN
        assert compare(got, item).passed == passes


def test_nan_at_infinity_alone_is_no_nan_of_a_row() -> None:
    proof = proof_of(ODD, torch.ones(8, 40, dtype=torch.float64), torch.ones(8, 40))
    x = proof.inputs["x"]
    truth, infinite = truth_of(proof), torch.isposinf(x)
    got = torch.ones(8, 40)
    got[infinite] = NAN  # as zero times infinity
    assert bool((infinite.any(-1) & ~infinite.all(-1)).any())
    assert not compare(got, truth).passed
    got[infinite.any(-1)] = NAN
    assert compare(got, truth).passed


@pytest.mark.parametrize("shape", [(40,), (1, 40), (8,)])
def test_a_column_with_infinity_may_be_nan_whole_where_columns_are_added_up(shape: tuple[int, ...]) -> None:
    exact = torch.ones(8, 40, dtype=torch.float64)
    proof = proof_of(ODD, torch.ones(shape, dtype=torch.float64), torch.ones(shape))
    infinite = torch.isposinf(proof.inputs["x"])
    exact[infinite] = NAN
    gradient = Expected("gradient of x", Truth(exact, exact.float()), (8, 40), (40, 1), "float32")
    truth = with_held(replace(proof, gradients={"x": gradient}), SOFTMAX).gradients["x"].truth
    got = exact.float()
    got[:, infinite.any(0)] = NAN
    assert bool((torch.isnan(got) & torch.isfinite(exact) & ~infinite.any(-1, keepdim=True)).any())
    assert compare(got, truth).passed is (shape != (8,))
    got[:, int((~infinite.any(0)).nonzero()[0])] = NAN
    assert not compare(got, truth).passed


def test_a_column_with_infinity_may_be_nan_whole_where_nan_spreads_along_columns() -> None:
    x = proof_of(ODD, torch.ones(8, 40), torch.ones(8, 40)).inputs["x"]
    infinite = torch.isposinf(x)
    column = int((infinite.any(0) & ~torch.isnan(x).any(0)).nonzero()[0])
    for spreads in (True, False):  # as of a norm of columns, and of what goes element by element
        exact = torch.ones(8, 40, dtype=torch.float64)
        exact[torch.isnan(x).any(0).expand(8, 40) if spreads else torch.isnan(x)] = NAN
        truth = truth_of(proof_of(ODD, exact, exact.float()))
        got = exact.float()
        got[:, column] = NAN
        assert compare(got, truth).passed is spreads


@pytest.mark.parametrize("element", [INF, NAN])
def test_one_element_of_a_vector_is_not_finite_and_matrices_beside_it_are(element: float) -> None:
    problem = parse_problem(problem_source("rms_norm"))
    case = Case("a vector", (("T", 8), ("H", 40)), "float32", 5, content=Content.odd, odd_element=element, among=("w",))
    places = set()
    for seed in range(40):
        inputs = make_inputs(problem, replace(case, seed=seed))
        (place,) = (~torch.isfinite(inputs["w"])).nonzero().flatten().tolist()
        places.add(place)
        assert str(float(inputs["w"][place])) == str(element)
        assert torch.isfinite(inputs["x"]).all()
    assert 39 in places and len(places) > 10


def test_of_large_values_a_row_that_rounding_decides_does_not_count() -> None:
    case = replace(LARGE, sizes=(("T", 60), ("V", 40)), reach=2.0**10)
    exact = torch.randn(60, 40, dtype=torch.float64, generator=stream())
    own = (exact * (1 + 1e-6 * torch.randn(60, 40, dtype=torch.float64, generator=stream()))).float()
    one = own.clone()
    one[7, 3] += 0.01
    judged = truth_of(proof_of(case, exact, one)).judged
    assert judged is not None
    assert not bool(judged[7].any()) and int(judged.all(-1).sum()) == 59
    twelve = own.clone()
    twelve[:12, 3] += 0.01  # what a fifth of all rows lose is what the function loses there
    judged = truth_of(proof_of(case, exact, twelve)).judged
    assert judged is not None and bool(judged.all())


@pytest.mark.parametrize("dtype", ["bool", "int64", "int8"])
@pytest.mark.parametrize("asks", ["", "torch.isfinite(x)"])
def test_whole_numbers_of_rows_with_nan_count_where_they_have_one_answer(dtype: str, asks: str) -> None:
    numbers = torch.ones(10, dtype=getattr(torch, dtype))
    proof = proof_of(replace(ODD, sizes=(("T", 10), ("V", 40))), numbers, numbers)
    proof = replace(proof, outputs=(replace(proof.outputs[0], dtype=dtype),))
    judged = with_held(proof, replace(SOFTMAX, source=SOFTMAX.source + asks)).outputs[0].truth.judged
    assert judged is not None
    rows = proof.inputs["x"]
    lost = torch.isnan(rows) if dtype == "int64" else ~torch.isfinite(rows)
    assert 0 < int(torch.isnan(rows).any(-1).sum()) < int((~torch.isfinite(rows)).any(-1).sum()) < 10
    assert torch.equal(judged, torch.ones(10, dtype=torch.bool) if asks or dtype == "bool" else ~lost.any(-1))


def test_the_sentence_says_what_the_row_held() -> None:
    proof = with_held(
        proof_of(replace(LARGE, reach=2.0**15), torch.ones(6, 40, dtype=torch.float64), torch.ones(6, 40)), SOFTMAX
    )
    got = torch.ones(6, 40)
    got[2, 7] = NAN
    item = proof.outputs[0]
    said = remark(proof, item, compare(got, item.truth))
    assert said == " Some rows of `x` hold values up to 3.28e+04, this one of `x`: values near -3.28e+04."


def test_where_only_distributions_are_large_the_label_says_how_large_their_logits_are() -> None:
    sharp = parse_problem(problem_source("softmax").replace('"T V"', '{"dims": "T V", "init": "softmax"}'))
    found = farthest(LARGE, sharp, lambda case: proof_of(case, torch.ones(6, 40).double(), torch.ones(6, 40), sharp))
    assert found is not None
    assert found.case.reach == 32.0
