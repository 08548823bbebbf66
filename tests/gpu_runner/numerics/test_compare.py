"""A value passes within twice the reference's own error, and no wrong row or element hides in a large tensor."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_runner.numerics.compare import Truth, compare, is_far, loss_of

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


def test_rows_of_zeros_do_not_lower_what_the_other_rows_are_allowed() -> None:
    exact = torch.zeros(100_000, 6, dtype=torch.float64)
    exact[::3200] = truth_of(torch.float32, rows=32, columns=6).exact
    lost = 1e-5 * torch.randn(exact.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4)) * exact
    own = exact + lost
    own[0] = exact[0]  # by luck
    truth = Truth(exact, own.float())
    assert compare((exact - lost).float(), truth).passed
    assert not compare((exact - 30 * lost).float(), truth).passed


@pytest.mark.parametrize(("size", "passes"), [(2.0**-140, True), (2.0**-120, False)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_below_the_smallest_normal_number_may_be_zero(dtype: torch.dtype, size: float, passes: bool) -> None:
    exact = size * torch.rand(7, 47, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert compare(torch.zeros(7, 47, dtype=dtype), Truth(exact, exact.to(dtype))).passed is passes


def test_float16_arithmetic_is_not_good_enough_for_float32() -> None:
    truth = truth_of(torch.float32)
    assert not compare(truth.exact.half().float(), truth).passed


def test_a_reference_that_loses_much_allows_as_much_twice() -> None:
    truth = truth_of(torch.float32)
    noise = 1e-3 * torch.randn(truth.exact.shape, generator=torch.Generator().manual_seed(1))
    loose = Truth(truth.exact, (truth.exact + noise).float())
    assert compare((truth.exact - noise).float(), loose).passed
    assert not compare((truth.exact - 4 * noise).float(), loose).passed


@pytest.mark.parametrize(("rows", "columns", "equal"), [(1, 1, False), (2, 14, True)])
def test_of_few_different_values_one_run_may_err_four_times_as_much_as_another(
    rows: int, columns: int, equal: bool
) -> None:
    exact = torch.rand((rows, columns), generator=torch.Generator().manual_seed(3)).double() + 1
    exact = exact[:1, :1].expand(rows, columns).clone() if equal else exact
    loose = Truth(exact, (exact * (1 + 1e-3)).float())
    assert compare((exact * (1 - 3.9e-3)).float(), loose).passed
    assert not compare((exact * (1 - 4.1e-3)).float(), loose).passed


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


def quantised(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.to(dtype)
    scale = x.abs().amax(-1, keepdim=True) / 127.0
    return torch.round(x / scale).to(torch.int8), torch.round(x * (1.0 / scale)).to(torch.int8)


def test_a_quotient_at_a_half_may_be_rounded_to_either_side() -> None:
    drawn = torch.Generator().manual_seed(7)
    x = torch.randn(1024, 512, generator=drawn).bfloat16()
    (exact, _), (own, other) = quantised(x, torch.float64), quantised(x, torch.float32)
    noise = [1 + 4 * 2.0**-23 * (2 * torch.rand(x.shape, generator=drawn) - 1).double() for _ in range(2)]
    runs = tuple(quantised(x.double() * each, torch.float64)[0] for each in noise)
    truth = Truth(exact, own, shaken=runs)
    at_half = (other != own) & (other != exact)
    assert 20 < int(at_half.sum()) < 500
    assert not compare(other, replace(truth, shaken=())).passed
    assert compare(other, truth).passed
    for wrong in (exact + 2 * at_half, exact + (torch.rand(x.shape, generator=drawn) < 0.01)):
        assert not compare(wrong.to(torch.int8), truth).passed
    mask = (exact > 0).to(torch.int8)
    others = tuple((run > 0).to(torch.int8) for run in runs)
    assert not compare(1 - mask, Truth(mask, mask, shaken=(1 - mask, *others))).passed


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


def test_an_error_up_to_twice_that_of_what_stands_passes_and_says_so() -> None:
    exact = torch.linspace(1.0, 2.0, 64, dtype=torch.float64).reshape(8, 8)
    truth = Truth(exact, exact.float())
    peer = exact.float() * 1.001
    for factor in (0.9991, 1.0018):
        assert not compare(exact.float() * factor, truth).passed
        beside = compare(exact.float() * factor, truth, [peer])
        assert beside.passed
        assert beside.by_peer
        assert beside.allowed == pytest.approx(0.002, rel=1e-2)
    assert not compare(exact.float() * 1.0022, truth, [peer]).passed


def test_of_several_runs_of_what_stands_the_one_that_errs_most_counts() -> None:
    exact = torch.linspace(1.0, 2.0, 64, dtype=torch.float64).reshape(8, 8)
    truth = Truth(exact, exact.float())
    most, other = exact.float() * 1.001, exact.float() * 1.0005
    got, beyond = exact.float() * 1.0018, exact.float() * 1.0022
    for peers in ([most], [most, most.clone()], [most, other], [other, most]):
        assert compare(got, truth, peers).by_peer
        assert not compare(beyond, truth, peers).passed
    assert not compare(got, truth, [other]).passed


def test_a_number_that_what_stands_does_not_have_lends_no_error() -> None:
    exact = torch.linspace(1.0, 2.0, 64, dtype=torch.float64).reshape(8, 8)
    peer = exact.float() * 1.001
    peer[0, 0] = torch.nan
    got = exact.float() * 1.0022
    got[0, 0] = torch.nan
    assert not compare(got, Truth(exact, exact.float()), [peer, peer.clone()]).passed


def test_one_element_that_errs_more_than_twice_any_of_what_stands_does_not_pass() -> None:
    exact = torch.ones(8, 8, dtype=torch.float64)
    got = exact.float()
    got[3, 4] = 1.011
    found = compare(got, Truth(exact, exact.float()), [exact.float() * 1.005])
    assert not found.passed
    assert found.position == (3, 4)


def test_an_error_of_what_stands_lends_as_much_at_every_level_and_no_wrong_row_or_element_hides_behind_it() -> None:
    truth = truth_of(torch.bfloat16, rows=4096)
    # What stands errs by three times what is allowed, in one row.
    peer = truth.own.clone()
    peer[7] *= 1.04
    assert compare(peer, truth).level == "row"
    for row in (7, 99):
        got = truth.own.clone()
        got[row] *= 0.97
        assert compare(got, truth, [peer]).by_peer
        got[row] *= 0.9
        assert compare(got, truth, [peer]).level == "row"
    got = peer.clone()
    got[99, 3] += 1.0
    assert compare(got, truth, [peer]).position == (99, 3)


def test_of_few_elements_what_stands_loses_elsewhere_says_what_is_allowed() -> None:
    exact = torch.tensor([3.0, -0.5, 0.1], dtype=torch.float64)
    truth = Truth(exact, exact.bfloat16(), typical=4.0)
    lucky, got, wrong = exact.bfloat16(), exact.bfloat16() + 0.06, exact.bfloat16() + 0.2
    large = truth_of(torch.bfloat16)
    noise = 1e-2 * torch.randn(large.exact.shape, generator=torch.Generator().manual_seed(2))
    loss = loss_of([(lucky, truth), ((large.exact + noise).bfloat16(), large)])
    assert loss == pytest.approx(1e-2, rel=0.1)
    assert not compare(got, truth, [lucky]).passed
    assert compare(got, truth, [lucky], loss).by_peer
    assert not compare(wrong, truth, [lucky], loss).passed
    assert not compare(got, truth, [lucky], 0.1 * loss).passed
    assert not compare(got, Truth(exact, exact.bfloat16()), [lucky], loss).passed


def test_what_is_wrong_by_far_is_no_measure_of_what_a_kernel_loses() -> None:
    large = truth_of(torch.bfloat16)
    assert loss_of([(torch.zeros(64, 128, dtype=torch.bfloat16), large)]) == 0.0
    assert loss_of([(large.own[:1], Truth(large.exact[:1], large.own[:1]))]) == 0.0


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


def test_a_tiny_number_in_place_of_an_exact_zero_is_wrong_and_one_that_underflows_is_not() -> None:
    stream = torch.Generator().manual_seed(6)
    exact = torch.randn(64, 900, dtype=torch.float64, generator=stream).clamp(min=0.0)
    own = exact.float()
    noise = (exact * (1 + 1e-7), exact * (1 - 1e-7))
    truth = Truth(exact, own, shaken=noise, is_noisy=True)
    assert compare(own, truth).passed
    tiny = torch.where(own == 0, 1e-8, own)
    found = compare(tiny, truth)
    assert (found.passed, found.level) == (False, "zero")
    assert found.position is not None
    assert float(exact[found.position]) == 0.0
    assert not is_far(found)
    assert compare(torch.where(own == 0, 1e-12, own), truth).passed
    assert compare(tiny, truth, [tiny]).passed  # what stands gives numbers there too
    assert compare(tiny, Truth(exact, own, shaken=noise)).passed  # nobody knows what rounding does
    noisy = torch.full_like(exact, 1e-9)  # rounding leaves something there
    assert compare(tiny, Truth(exact, own, shaken=(exact + noisy, exact - noisy), is_noisy=True)).passed


def test_zeros_in_place_of_tiny_numbers_are_wrong_unless_rounding_may_leave_them() -> None:
    exact = torch.randn(64, 900, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    exact[5] *= 1e-6
    own = exact.float()
    noise = (exact * (1 + 1e-7), exact * (1 - 1e-7))
    cut = torch.where(own.abs() < 1e-6, 0.0, own)
    found = compare(cut, Truth(exact, own, shaken=noise, is_noisy=True))
    assert (found.passed, found.level, found.got) == (False, "emptied", 0.0)
    assert found.position is not None
    assert found.position[0] == 5
    assert compare(cut, Truth(exact, own, shaken=noise, is_noisy=True), [cut]).passed  # what stands cuts them too
    cancels = torch.full_like(exact, 1e-6)  # terms that leave as much as the number is
    assert compare(cut, Truth(exact, own, shaken=(exact + cancels, exact - cancels), is_noisy=True)).passed


def test_where_the_reference_rounds_correctly_one_element_of_a_row_may_not_be_a_hundred_units_off() -> None:
    a, b = torch.randn(2, 4, 2048, dtype=torch.float64).float()
    exact, own = a.double() * b.double(), a * b
    noise = tuple(exact * (1 + sign * 2e-7) for sign in (1, -1))
    truth = Truth(exact, own, shaken=noise)
    off = own.clone()
    off[:, 1024] += 1.2e-5 * off[:, 1024].abs()
    found = compare(off, truth)
    assert (found.passed, found.level) == (False, "outlier")
    assert compare(off, Truth(exact, off, shaken=noise)).passed  # the reference loses it too
    small, place = own.clone(), int((exact[0].abs() - 0.02).abs().argmin())
    small[0, place] += 1.5e-5
    found = compare(small, truth)
    assert (found.level, found.error is not None and found.error > 1000.0, is_far(found)) == ("outlier", True, False)
    few = own * (1 + 3e-7 * torch.randn_like(own))  # a few units, as of a division and another order
    assert compare(few, truth).passed
    terms = torch.randn(7, 83).double()
    sums = terms.cumsum(-1)
    in_turn = torch.from_numpy(terms.float().numpy().cumsum(-1))
    moved = tuple(sums * (1 + sign * 2e-7) for sign in (1, -1))
    assert compare(in_turn, Truth(sums, sums.float(), shaken=moved)).passed  # a reference that adds in float64
    cancels = exact.clone()
    cancels[:, 1024] = exact[:, 1024] * 1e-5  # of terms as large as the others
    noisy = tuple(
        torch.where(cancels == exact, each, cancels + 2e-7 * (1 if n else -1)) for n, each in enumerate(noise)
    )
    lost = cancels.float()
    lost[:, 1024] += 2e-7
    assert compare(lost, Truth(cancels, cancels.float(), shaken=noisy)).passed


def test_last_bits_are_those_of_the_terms_that_autograd_adds_up() -> None:
    stream = torch.Generator().manual_seed(5)
    exact = torch.randn(40, 80, dtype=torch.float64, generator=stream) / 80
    upstream = torch.randn(40, 1, generator=stream)
    got = (exact.float() + upstream) - upstream
    truth = Truth(exact, exact.float(), natural=1e-6)
    assert compare(got, truth).level == "cut"
    assert compare(got, replace(truth, terms=float(upstream.abs().max()))).passed
    assert compare(80 * got, Truth(80 * exact, 80 * exact.float(), natural=1e-4, terms=1e-3)).level == "cut"


def test_what_is_lost_in_the_terms_that_autograd_adds_up_may_be_zero() -> None:
    exact = torch.randn(40, 80, dtype=torch.float64, generator=torch.Generator().manual_seed(5)) / 80
    exact[:, 5] = 1e-8
    own, noise = exact.float(), (exact * (1 + 1e-7), exact * (1 - 1e-7))
    truth = Truth(exact, own, shaken=noise, is_noisy=True)
    assert compare(torch.where(own == own[0, 5], 0.0, own), truth).level == "emptied"
    assert compare(torch.where(own == own[0, 5], 0.0, own), replace(truth, terms=1.0)).passed


def test_where_rounding_fills_some_zeros_a_kernel_may_fill_as_many_others() -> None:
    stream = torch.Generator().manual_seed(7)
    before = torch.randn(64, 900, dtype=torch.float64, generator=stream)
    exact, own = before.clamp(min=0.0), before.clamp(min=0.0).float()
    moved = [(before + shift).clamp(min=0.0) for shift in (2e-3, -2e-3)]  # some zeros become numbers, some numbers zero
    truth = Truth(exact, own, shaken=tuple(moved), is_noisy=True)
    zeros = torch.nonzero((own == 0) & (moved[0] == 0))
    for filled, passes in ((40, True), (4000, False)):
        got = own.clone()
        got[tuple(zeros[:filled].T)] = 1e-7
        assert compare(got, truth).passed == passes, filled


@pytest.mark.parametrize(
    ("moved", "size", "passes"), [((7, 8, 50), 1.0, True), ((50, 51), 1.0, False), ((50,), 2.5, False)]
)
def test_beside_a_step_a_kernel_may_move_few_other_elements_than_the_reference_and_no_farther(
    moved: tuple[int, ...], size: float, passes: bool
) -> None:
    """As at the threshold of a sparse softmax: a rounding decides on which side an element lies."""
    truth = truth_of(torch.float32)
    truth = replace(truth, own=truth.own * (1.0 + 2.0**-21))
    shaken = truth.exact.clone()
    shaken[3, [7, 8]] += 1.0
    got = truth.own.clone()
    got[3, list(moved)] += size
    compared = compare(got, replace(truth, shaken=(shaken,)))
    assert (compared.passed, compared.level) == (passes, "tensor" if passes else "element")
    assert not compare(got, truth).passed


@pytest.mark.parametrize("shape", [(40, 60), (40,), (60, 40)])
@pytest.mark.parametrize("dtype", HALVES)
def test_rows_and_columns_of_very_different_sizes_are_held_against_their_own(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    exponents = torch.linspace(-9.0 if dtype is torch.float16 else -90.0, 9.0, 40, dtype=torch.float64)
    of_columns = shape == (60, 40)
    exact = (truth_of(dtype, 40, 60).exact + 3.0) * 2.0 ** exponents[:, None]
    exact = exact[:, 0] if len(shape) == 1 else exact.t() if of_columns else exact
    truth = Truth(exact, exact.to(dtype), judged=torch.ones(shape, dtype=torch.bool))
    wrong, at = truth.own.clone(), (slice(None), 3) if of_columns else 3
    wrong[at] *= 1.25
    assert compare(wrong, truth).passed or dtype is not torch.float32  # of halves each element has a step of its own
    by_scale = replace(truth, own_scales=40, of_columns=of_columns)
    found = compare(wrong, by_scale)
    assert (found.passed, found.position and found.position[1 if of_columns else 0]) == (False, 3)
    assert compare(truth.own, by_scale).passed
    # Where the reference loses a row nothing is known of it.
    lost = replace(by_scale, own=wrong)
    assert compare(wrong, lost).passed and compare(truth.own, lost).passed
