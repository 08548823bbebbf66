"""Honest kernels pass over many seeds, near the line as well; what loses more than eager and an ideal rounding does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gpu_runner.contracts import parse_problem
from gpu_runner.numerics.compare import Truth, compare, scattered
from gpu_runner.verify.cases import Case
from gpu_runner.verify.proof import Expected
from gpu_runner.verify.truth import _with_order_of_rows, asked_of, form_of
from tests.gpu_runner.verify.kernels import (
    FAULTS,
    HALF_SUMS,
    OPERATIONS,
    inputs,
    randomly_rounded,
    truth_of,
)
from tests.honest.table import problem_of

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SIZES = ((24, 512), (7, 97), (5, 255), (3, 129), (13, 40), (1, 64), (5, 1), (2, 513))
FEW = range(len(SIZES))  # each size once


@pytest.mark.parametrize(
    "seeds", [FEW, pytest.param(range(len(FEW), 40), marks=pytest.mark.long)], ids=["few", "others"]
)
@pytest.mark.parametrize("name", OPERATIONS)
def test_honest_kernels_pass_with_every_seed(name: str, seeds: range) -> None:
    operation = OPERATIONS[name]
    wrong = []
    for seed in seeds:
        for dtype in DTYPES:
            given = inputs(operation, *SIZES[seed % len(SIZES)], dtype, seed)
            truth = truth_of(operation, given)
            for kernel, compute in operation.honest.items():
                found = compare(compute(*given), truth)
                if not found.passed:
                    wrong.append((kernel, seed, dtype, found))
    assert not wrong


# Where the reference itself rounds twice, one random rounding loses no more than it does.
NO_LOSS = {("rms_norm", "random rounding"), ("swiglu", "random rounding")}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["softmax", "rms_norm", "layer_norm", "swiglu", "gelu"])
def test_a_loss_is_found_with_every_seed(name: str, fault: str) -> None:
    operation = OPERATIONS[name]
    dtypes, compute = FAULTS[fault]
    for seed in range(4):
        for dtype in dtypes:
            truth = truth_of(operation, inputs(operation, 24, 512, dtype, seed))
            got = compute(truth.exact, dtype)
            if (name, fault) in NO_LOSS:
                assert root_mean_square(got, truth) < 1.05 * root_mean_square(truth.own, truth)
            else:
                assert not compare(got, truth).passed


@pytest.mark.parametrize("strange", [torch.nan, torch.inf])
def test_a_run_that_overflows_where_the_truth_does_not_tells_nothing_there(strange: float) -> None:
    exact = torch.randn(24, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    runs = [exact.float(), exact.float()]
    runs[1][3, 5] = strange
    truth = Truth(exact, exact.float(), shaken=tuple(runs), is_noisy=True)
    assert compare(exact.float(), truth).passed
    assert not compare(exact.float() * 1.001, truth).passed


def root_mean_square(values: torch.Tensor, truth: Truth) -> float:
    return float((values.double() - truth.exact).norm())


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("name", HALF_SUMS)
def test_a_long_sum_in_half_precision_is_found(name: str, dtype: torch.dtype) -> None:
    operation = OPERATIONS[name]
    for seed in range(4):
        given = inputs(operation, 48, 2048, dtype, seed)
        assert not compare(HALF_SUMS[name](*given), truth_of(operation, given)).passed


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_two_runs_may_differ_in_the_order_of_sums_but_not_at_random(dtype: torch.dtype) -> None:
    exact = torch.randn(24, 512, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    truth = Truth(exact, exact.to(dtype))
    noise = 2.0**-16 * torch.randn(exact.shape, generator=torch.Generator().manual_seed(4))
    other = (exact * (1 + noise)).to(dtype)
    assert not torch.equal(other, truth.own)  # as many as sums in float32 of a thousand times the result
    assert scattered(other, truth.own, truth).passed
    for values in (exact, torch.softmax(3.0 * exact, -1)):  # most shares are far below their rows' scale
        first, second = (randomly_rounded(values.float(), dtype, seed) for seed in (1, 2))
        assert not scattered(first, second, Truth(values, values.to(dtype))).passed


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_what_rounding_leaves_of_terms_that_cancel_may_differ_between_two_runs(dtype: torch.dtype) -> None:
    # The gradient of a softmax whose upstream is one number: y * (g - sum(y * g)), of six rows with a sum each.
    shares = torch.softmax(torch.randn(6, 209, dtype=torch.float64, generator=torch.Generator().manual_seed(6)), -1)
    truth = Truth(1e-13 * shares, (1e-13 * shares).to(dtype), natural=65.5)
    first = (shares * torch.tensor([0.0, 256, 0, 0, 128, 0])[:, None]).to(dtype)
    assert scattered(first, torch.zeros_like(first), truth).passed
    assert not scattered(first, torch.zeros_like(first), replace(truth, natural=0.0)).passed


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_elements_of_one_true_value_move_together_between_two_runs(dtype: torch.dtype) -> None:
    halfway = 1.0 + torch.finfo(dtype).eps / 2
    exact = torch.randn(6, 209, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    exact[2] = halfway  # as of a row whose elements are all equal
    first = exact.to(dtype)
    second = first.clone()
    second[2] = 1.0 + torch.finfo(dtype).eps
    assert bool((first[2] != second[2]).all())
    assert scattered(first, second, Truth(exact, first)).passed


def test_rows_may_be_added_up_in_any_order_one_after_the_other() -> None:
    problem = parse_problem(problem_of("column_sum_reset"))
    form = form_of(problem)
    assert form is not None
    proof = asked_of(problem, form, Case("drawn", (("T", 207_489), ("H", 6)), "float32", 11))
    x = proof.inputs["x"]
    truth = Truth(x.double().sum(0), x.sum(0))
    item = _with_order_of_rows(Expected("output 0", truth, (6,), (1,), "float32", True), proof)
    blocks, wrong = x[:-1].reshape(-1, 4, 6).sum(1), 0  # of four rows, as atomics add them
    for seed in range(8):
        order = torch.randperm(len(blocks), generator=torch.Generator().manual_seed(seed))
        got = torch.from_numpy(np.add.accumulate(blocks[order].numpy(), axis=0)[-1]) + x[-1]
        assert compare(got, item.truth).passed
        wrong += not compare(got, truth).passed
    assert wrong
    assert not compare(got * (1 + 4e-5), item.truth).passed
    row = Expected("output 0", Truth(x.double().sum(1), x.sum(1)), (len(x),), (1,), "float32", True)
    assert _with_order_of_rows(row, proof) == row  # within a row a program has an order


def test_an_exact_share_as_low_as_twice_the_references_passes_beside_an_original_that_has_it() -> None:
    exact = torch.randn(24, 512, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    truth = Truth(exact, exact.bfloat16())
    got, peer = (randomly_rounded(exact.float(), torch.bfloat16, seed) for seed in (1, 2))
    found = compare(got, truth)
    assert (found.passed, found.level) == (False, "share")
    assert compare(got, truth, [peer]).by_peer


@pytest.mark.parametrize("rows", [1, 8])
def test_an_element_may_be_as_far_out_as_roundings_at_random_leave_it_where_the_references_own_cancel(
    rows: int,
) -> None:
    stream = torch.Generator().manual_seed(4)
    shape = (rows, 90)
    exact = torch.randn(shape, dtype=torch.float64, generator=stream) * (torch.rand(shape, generator=stream) < 0.1)
    exact[0, 7] = 0.82325
    own = exact.half()
    other = own.clone()
    other[0, 7] += 2.0**-11  # the next number of float16
    at_random = other.double()
    assert compare(other, Truth(exact, own, rounded=own.double())).level == "tail"
    assert compare(other, Truth(exact, own, rounded=at_random)).passed
    other[0, 7] += 2.0**-10
    assert compare(other, Truth(exact, own, rounded=at_random)).level == "tail"


def test_a_number_where_the_truth_is_not_finite_fails_and_another_kind_is_named() -> None:
    exact = torch.randn(4, 64, dtype=torch.float64)
    exact[0, 0], exact[1, 1] = torch.nan, torch.inf
    truth = Truth(exact, exact.float())
    for place, value, passes in (
        ((0, 0), torch.inf, True),
        ((1, 1), torch.nan, True),
        ((0, 0), 0.0, False),
        ((1, 1), 3e38, False),
        ((1, 1), -torch.inf, False),
        ((2, 2), torch.inf, False),
    ):
        got = exact.float()
        got[place] = value
        found = compare(got, truth)
        assert (found.passed, found.other_kind) == (passes, passes)


def test_what_moves_with_the_rounding_of_operators_is_no_loss_where_the_reference_rounds_correctly() -> None:
    exact = torch.randn(18, 86, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
    own = exact.float()
    got = (exact * (1 + 3e-6)).float()  # fifty units in the last place
    assert compare(got, Truth(exact, own, is_ordinary=True)).level == "rounding"
    moved = tuple(exact * (1 + sign * 1e-5) for sign in (1, -1))
    assert compare(got, Truth(exact, own, shaken=moved, is_ordinary=True)).passed
