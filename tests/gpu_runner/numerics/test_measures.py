"""A large tensor is read piece by piece, and what is found does not depend on where the pieces end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_runner.numerics import measures
from gpu_runner.numerics.compare import Truth, compare, rms
from gpu_runner.numerics.measures import Sheet, Sums
from gpu_runner.program.mode import Mode

ODD = (math.nan, math.inf, -math.inf)


def sheet(rows: int, columns: int, seed: int, odd: bool, judged: bool) -> Sheet:
    stream = torch.Generator().manual_seed(seed)
    exact = torch.randn(rows, columns, dtype=torch.float64, generator=stream)
    own = exact.float()
    got = (exact * (1 + 1e-3 * torch.randn(rows, columns, dtype=torch.float64, generator=stream))).float()
    if odd:
        at = torch.randint(rows * columns, (3,), generator=stream)
        exact.view(-1)[at[0]], own.view(-1)[at[1]], got.view(-1)[at[2]] = ODD
    kept = torch.rand(rows, columns, generator=stream) < 0.8 if judged else None
    return Sheet(got, exact, own, (exact * 1.0001,), kept)


def plainly(given_sheet: Sheet) -> dict[str, torch.Tensor]:
    """Give the norms of rows by formulas over the whole tensor."""
    got, exact = given_sheet.got.double(), given_sheet.exact
    good = torch.isfinite(got) & torch.isfinite(exact)
    good &= torch.ones_like(good) if given_sheet.judged is None else given_sheet.judged
    lost = torch.zeros_like(exact)
    for value in (given_sheet.own.double(), *given_sheet.shaken):
        both = torch.isfinite(value) & torch.isfinite(exact)
        lost = torch.maximum(lost, torch.where(both, (value - exact).abs(), 0.0))
    error, lost = torch.where(good, (got - exact).abs(), 0.0), torch.where(good, lost, 0.0)
    finite = torch.where(torch.isfinite(exact), exact, 0.0)
    return {
        "error": error.square().sum(-1).sqrt(),
        "peak": error.amax(-1),
        "own": lost.square().sum(-1).sqrt(),
        "exact": finite.square().sum(-1).sqrt(),
        "excess": (error - 2 * lost - 0.5 * finite.abs()).amax(-1),
    }


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 9),
    columns=st.integers(1, 40),
    piece=st.integers(1, 50),
    seed=st.integers(0, 2**31),
    odd=st.booleans(),
    judged=st.booleans(),
)
def test_the_sums_of_pieces_are_those_of_the_whole(
    rows: int, columns: int, piece: int, seed: int, odd: bool, judged: bool
) -> None:
    whole = sheet(rows, columns, seed, odd, judged)
    found = sums(whole, piece)
    for name, expected in plainly(whole).items():
        torch.testing.assert_close(getattr(found, name), expected, rtol=1e-12, atol=1e-300)
    finite = torch.isfinite(whole.exact)
    assert found.finite == int(finite.sum())
    assert found.largest == max(whole.exact[finite].abs().tolist(), default=0.0)
    assert not (found.plain and (odd or judged))


def sums(whole: Sheet, piece: int) -> Sums:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measures, "PIECE", piece)
        return whole.sums(2.0, 0.5)


def test_values_in_float64_are_left_as_they_are() -> None:
    exact = torch.randn(5, 7, dtype=torch.float64)
    before = exact.clone()
    assert compare(exact, Truth(exact, exact, shaken=(exact,))).passed
    assert torch.equal(exact, before)


@pytest.mark.parametrize("at", [(0, 0), (1, measures.PIECE - 1), (1, measures.PIECE), (2, 3 * measures.PIECE + 4)])
def test_one_wrong_element_is_found_wherever_the_pieces_end(at: tuple[int, int]) -> None:
    exact = torch.ones(3, 3 * measures.PIECE + 5, dtype=torch.float64)
    got = exact.bfloat16()
    got[at] = 1.25
    assert compare(got, Truth(exact, exact.bfloat16())).position == at


def test_the_root_mean_square_leaves_out_what_is_not_finite() -> None:
    values = torch.full((3 * measures.PIECE + 7,), 3.0, dtype=torch.bfloat16)
    values[5], values[measures.PIECE] = ODD[:2]
    assert rms(values) == pytest.approx(3.0)
    assert rms(torch.tensor(ODD)) == 0.0
    assert rms(torch.zeros(0)) == 0.0


class _Widest(Mode):
    """Sees how many elements the largest tensor has that an operator made."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        made = func(*args, **kwargs)
        known = {arg.untyped_storage().data_ptr() for arg in args if isinstance(arg, torch.Tensor)}
        if isinstance(made, torch.Tensor) and made.untyped_storage().data_ptr() not in known:
            self.elements = max(self.elements, made.numel())
        return made


GRAIN = 2**15  # at::internal::GRAIN_SIZE: from so many elements on torch gives a sum to all of its threads


@pytest.mark.parametrize("shape", [(512, 4096), (4096, 512), (128, 16384), (3, 2**15), (1, 2**18), (7, 40000)])
def test_a_piece_is_left_to_one_thread_and_none_is_a_sliver(shape: tuple[int, int]) -> None:
    found = list(measures.pieces(*shape))
    sizes = [(rows.stop - rows.start) * (columns.stop - columns.start) for rows, columns in found]
    assert max(sizes) < GRAIN
    assert sum(sizes) == math.prod(shape)
    assert min(columns.stop - columns.start for _, columns in found) > min(shape[1], GRAIN) / 4


@pytest.mark.parametrize("shape", [(2**9, 2**9), (2**18,), (2**13, 2**5)])
def test_nothing_larger_than_a_piece_is_made_of_a_large_tensor_that_is_right(shape: tuple[int, ...]) -> None:
    exact = torch.randn(shape, dtype=torch.float64)
    own = exact.bfloat16()
    got = own.clone()
    with _Widest() as widest:
        assert compare(got, Truth(exact, own, shaken=(exact, exact))).passed
        rms(exact)
    assert 0 < widest.elements <= measures.PIECE


def test_the_size_of_what_float64_holds_no_square_of_is_infinite() -> None:
    assert rms(torch.tensor([1e200, 3.0], dtype=torch.float64)) == math.inf
    assert rms(torch.tensor([math.inf, 3.0], dtype=torch.float64)) == 3.0
