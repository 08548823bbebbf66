"""A value passes within twice the reference's own error, and no wrong row or element hides in a large tensor."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_runner.verify.compare import Truth, compare

HALVES = [torch.float32, torch.bfloat16, torch.float16]


def truth_of(dtype: torch.dtype, rows: int = 64, columns: int = 128, seed: int = 0) -> Truth:
    exact = torch.randn(rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return Truth(exact, exact.to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_the_rounded_truth_passes(dtype: torch.dtype) -> None:
    truth = truth_of(dtype)
    assert compare(truth.exact.to(dtype), truth).passed


@pytest.mark.parametrize("dtype", HALVES)
def test_one_wrong_element_of_many_is_found_at_its_place(dtype: torch.dtype) -> None:
    truth = truth_of(dtype)
    got = truth.own.clone()
    got[13, 57] += 0.25
    found = compare(got, truth)
    assert not found.passed
    assert found.position == (13, 57)


def test_one_row_that_is_a_little_wrong_is_found() -> None:
    truth = truth_of(torch.float32, rows=4096)
    got = truth.own.clone()
    got[99] *= 1 + 1e-5
    found = compare(got, truth)
    assert not found.passed
    assert found.position is not None
    assert found.position[0] == 99


def test_float16_arithmetic_is_not_good_enough_for_float32() -> None:
    truth = truth_of(torch.float32)
    assert not compare(truth.exact.half().float(), truth).passed


def test_a_reference_that_loses_much_allows_as_much_twice() -> None:
    truth = truth_of(torch.float32)
    noise = 1e-3 * torch.randn(truth.exact.shape, generator=torch.Generator().manual_seed(1))
    loose = Truth(truth.exact, (truth.exact + noise).float())
    assert compare((truth.exact - noise).float(), loose).passed
    assert not compare((truth.exact - 4 * noise).float(), loose).passed


def test_nan_and_infinity_must_stand_where_the_truth_has_them() -> None:
    truth = truth_of(torch.float32)
    exact = truth.exact.clone()
    exact[0, 0], exact[1, 1] = float("nan"), float("inf")
    odd = Truth(exact, exact.float())
    assert compare(exact.float(), odd).passed
    for place, value in (((0, 0), 0.0), ((1, 1), float("-inf")), ((2, 2), float("nan"))):
        got = exact.float()
        got[place] = value
        found = compare(got, odd)
        assert not found.passed
        assert found.position == place


def test_a_value_that_overflows_the_dtype_may_be_infinite() -> None:
    exact = torch.full((2, 4), 1e6, dtype=torch.float64)
    assert compare(torch.full((2, 4), float("inf"), dtype=torch.float16), Truth(exact, exact.half())).passed


def test_whole_numbers_equal_the_truth_or_the_reference() -> None:
    truth = Truth(torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4]))
    assert compare(torch.tensor([1, 2, 4]), truth).passed
    assert compare(torch.tensor([1, 5, 3]), truth).position == (1,)


def test_a_gradient_that_cancels_to_nothing_may_differ_by_rounding() -> None:
    exact = torch.zeros(5, 1, dtype=torch.float64)
    got = torch.full((5, 1), 3e-8)
    assert not compare(got, Truth(exact, exact.float())).passed
    assert compare(got, Truth(exact, exact.float(), natural=1e-6)).passed


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), factor=st.floats(0.5, 2.0).filter(lambda f: abs(f - 1) > 1e-2))
def test_a_wrong_factor_never_passes(seed: int, factor: float) -> None:
    for dtype in HALVES:
        truth = truth_of(dtype, 8, 32, seed)
        assert not compare((truth.exact * factor).to(dtype), truth).passed


def test_an_error_no_larger_than_that_of_what_stands_passes_and_says_so() -> None:
    exact = torch.linspace(1.0, 2.0, 64, dtype=torch.float64).reshape(8, 8)
    truth = Truth(exact, exact.float())
    peer = exact.float() * 1.001
    assert not compare(exact.float() * 0.9991, truth).passed
    beside = compare(exact.float() * 0.9991, truth, [peer])
    assert beside.passed
    assert beside.by_peer
    assert not compare(exact.float() * 1.002, truth, [peer]).passed


def test_where_what_stands_scatters_from_run_to_run_twice_the_largest_error_seen_passes() -> None:
    exact = torch.linspace(1.0, 2.0, 64, dtype=torch.float64).reshape(8, 8)
    truth = Truth(exact, exact.float())
    steady, other = exact.float() * 1.001, exact.float() * 1.0005
    got, beyond = exact.float() * 1.0018, exact.float() * 1.0022
    assert not compare(got, truth, [steady]).passed
    assert not compare(got, truth, [steady, steady.clone()]).passed
    scattered = compare(got, truth, [steady, other])
    assert scattered.by_peer
    assert scattered.allowed == pytest.approx(0.002, rel=1e-2)
    assert not compare(beyond, truth, [steady, other]).passed


def test_a_number_missing_in_every_run_is_no_scatter() -> None:
    exact = torch.linspace(1.0, 2.0, 64, dtype=torch.float64).reshape(8, 8)
    peer = exact.float() * 1.001
    peer[0, 0] = torch.nan
    got = exact.float() * 1.0018
    got[0, 0] = torch.nan
    assert not compare(got, Truth(exact, exact.float()), [peer, peer.clone()]).passed


def test_one_element_that_errs_more_than_any_of_what_stands_does_not_pass() -> None:
    exact = torch.ones(8, 8, dtype=torch.float64)
    got = exact.float()
    got[3, 4] = 1.01
    found = compare(got, Truth(exact, exact.float()), [exact.float() * 1.005])
    assert not found.passed
    assert found.position == (3, 4)


def test_what_is_right_by_itself_needs_no_allowance() -> None:
    exact = torch.ones(8, 8, dtype=torch.float64)
    assert not compare(exact.float(), Truth(exact, exact.float()), [exact.float() * 2]).by_peer


def test_a_number_that_is_not_finite_passes_only_where_what_stands_has_it_too() -> None:
    exact = torch.ones(2, 4, dtype=torch.float64)
    peer, got = exact.float(), exact.float()
    peer[0, 1] = torch.inf
    got[0, 1] = torch.inf
    assert compare(got, Truth(exact, exact.float()), [peer]).passed
    got[1, 1] = torch.inf
    assert not compare(got, Truth(exact, exact.float()), [peer]).passed
