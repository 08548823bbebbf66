"""The truth is computed in float64 throughout, whatever the reference casts to."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
import torch.nn.functional as F

from gpu_runner.child import lift
from gpu_runner.child.lift import as_allowed, as_on_gpu, lifted, rounded
from gpu_runner.numerics.distribution import half_steps


def test_casts_and_factories_of_the_reference_are_lifted() -> None:
    x = torch.randn(4, 8, dtype=torch.float64)
    with lifted():
        assert x.float().dtype == torch.float64
        assert x.to(torch.bfloat16).dtype == torch.float64
        assert torch.zeros(3, dtype=torch.float32).dtype == torch.float64
        assert torch.tensor(0.1).dtype == torch.float64
        assert F.softmax(x, -1, dtype=torch.float32).dtype == torch.float64
        assert x.sum(dtype=torch.float32).dtype == torch.float64
        assert x.long().dtype == torch.int64
    assert torch.get_default_dtype() == torch.float32


def test_the_gradient_through_a_cast_is_exact() -> None:
    x = torch.randn(4, 8, dtype=torch.float64, requires_grad=True)
    with lifted():
        h = x.float()
        y = (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(torch.bfloat16)
        (got,) = torch.autograd.grad(y.sum(), [x])
    plain = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    (expected,) = torch.autograd.grad(plain.sum(), [x])
    assert got.dtype == torch.float64
    assert torch.allclose(got, expected, rtol=1e-13, atol=1e-14)


def test_noise_says_what_partial_sums_lose_whose_terms_cancel() -> None:
    large = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)[:, None] * 2.0**15
    small = torch.randn(5, 400, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    x = torch.cat([small[:2], large.expand(4, 400), small[2:]])
    with lifted("each"):
        lost = (x.sum(0) - small.sum(0)).abs()
    one_rounding = 2.0**15 * 2.0**-24  # of a partial sum as large as the terms
    assert float((lost > one_rounding / 4).double().mean()) > 0.9
    assert float(lost.max()) < 32 * one_rounding


def test_half_precision_rounded_at_random_goes_to_either_neighbour_of_the_truth() -> None:
    stream = torch.Generator().manual_seed(1)
    for dtype in (torch.bfloat16, torch.float16):
        a, b = (torch.randn(64, 512, generator=stream).to(dtype) for _ in range(2))
        exact = a.double() * b.double()
        with rounded(1):
            first = a * b
        with rounded(2):
            second = a * b
        nearest, drawn = (((value.double() - exact) / half_steps(exact, dtype)) for value in (exact.to(dtype), first))
        assert float(drawn.abs().max()) <= 2.0
        assert 0.2 < float((first != second).double().mean()) < 0.5
        assert float(drawn.square().mean()) > 1.8 * float(nearest.square().mean())
        assert abs(float(drawn.mean())) < 0.03


def test_what_eager_mode_computes_in_float32_or_moves_is_not_rounded_at_random() -> None:
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(2)).bfloat16()
    with rounded(1):
        wide = x.float().square().mean(-1)
        moved = x.T.contiguous().flip(0)
    assert torch.equal(wide, x.float().square().mean(-1))
    assert torch.equal(moved, x.T.contiguous().flip(0))


def test_a_gradient_meets_the_roundings_of_what_its_forward_saved() -> None:
    x = torch.tensor([[8.0, 0.0, 0.0, 0.0]]).bfloat16()

    def gradient(seed: int) -> torch.Tensor:
        leaf = x.clone().requires_grad_()
        with rounded(seed):
            (found,) = torch.autograd.grad(torch.softmax(leaf, -1), [leaf], torch.ones_like(x) * x)
        return found

    # The largest probability is 0.999: whether one half step is lost there decides on the whole row's gradient.
    assert len({tuple(gradient(seed).flatten().tolist()) for seed in range(8)}) > 1


def test_noise_is_seen_within_an_operator_whose_terms_cancel() -> None:
    x = torch.full((4, 64), 3.7, dtype=torch.float64)
    with lifted():
        exact = torch.nn.functional.layer_norm(x, (64,), eps=1e-6)
    shifts = []
    for noise in ("each", "all"):
        with lifted(noise):
            shifts.append(float((torch.nn.functional.layer_norm(x, (64,), eps=1e-6) - exact).abs().max()))
    # The mean of equal numbers is exact by luck alone: a rounding of it stands over the square root of epsilon.
    assert max(shifts) > 3.7 * 2.0**-24 * 1e3 / 4
    image = torch.arange(12.0, dtype=torch.float64).reshape(1, 1, 12)
    with lifted("each"):
        wider = torch.nn.functional.interpolate(image, scale_factor=2)
    assert float((wider - image.repeat_interleave(2, -1)).abs().max()) < 1e-5


def test_noise_is_seen_where_the_terms_of_a_scan_cancel_to_nothing() -> None:
    values = torch.tensor([[0.3, 0.4, -0.7]]).double()
    values[0, 2] = -(values[0, 0] + values[0, 1])
    assert float(values.cumsum(-1)[0, -1]) == 0.0
    with lifted("each"):
        last = float(values.cumsum(-1)[0, -1])
    assert 0.0 < abs(last) < 16 * 2.0**-24


def test_noise_in_a_scan_takes_no_square_of_the_numbers_of_a_row() -> None:
    # Torch's own formula would make 2^34 numbers of them. They have one sign, so that nothing cancels.
    values = torch.rand(1, 2**17)
    exact = values.double().cumsum(-1)
    with lifted("each"):
        moved = values.cumsum(-1)
    error = ((moved - exact) / exact).abs()
    assert 2.0**-23 < float(error.mean()) < 2.0**-18


@pytest.mark.parametrize("noise", ["each", "all"])
def test_operators_that_round_once_are_moved_as_by_their_formulas(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy() -> list[torch.Tensor]:
        x = torch.linspace(0.5, 3, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
        with lifted(noise):
            y = x * x.mean(-1, keepdim=True) / (x + 2) - torch.sub(x, 1, alpha=3)
            y = y + (x.exp() + x.log()).sqrt() * torch.rsqrt(x) + x.sin() * x.cos() - x.tanh() * torch.arange(4)
            y = y + torch.div(x, 0.7, rounding_mode="floor")
            return [y.detach(), *torch.autograd.grad(y.sum(), [x])]

    given = noisy()
    monkeypatch.setattr(lift, "_ROUNDED_ONCE", frozenset())
    assert all(torch.equal(one, other) for one, other in zip(given, noisy(), strict=True))


@pytest.mark.parametrize("shape", [(6, 1), (1, 6), (1, 1), (6,)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_a_norm_with_noise_has_the_shape_of_the_norm(shape: tuple[int, ...], keepdim: bool) -> None:
    x = torch.ones(shape)

    def as_in_torch_2_11(x: torch.Tensor, ord: float, dim: list[int], keepdim: bool = False) -> torch.Tensor:
        assert ord == 2
        return x.sum([place for place in range(x.dim()) if place in dim], keepdim=keepdim)

    expected = x.norm(dim=-1, keepdim=keepdim).shape
    assert lift._of_counted_dims(as_in_torch_2_11)(x, 2, [-1], keepdim).shape == expected
    with lifted("each"):
        assert x.norm(dim=-1, keepdim=keepdim).shape == expected
        assert x.norm().shape == ()


def test_the_log_sum_that_kernels_keep_is_as_large_as_what_it_is_of() -> None:
    far = torch.full((3, 100), 2.0**30, dtype=torch.float64)
    with lifted("each"):
        noisy = far.log_softmax(-1)
    assert torch.allclose(far.log_softmax(-1).exp(), torch.tensor(0.01, dtype=torch.float64))
    assert (noisy - far.log_softmax(-1)).abs().max() > 1.0, "float32 keeps nothing of it"
    near = torch.randn(3, 100, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with lifted("each"):
        noisy = near.log_softmax(-1)
    assert torch.allclose(noisy, near.log_softmax(-1), atol=1e-5) and not torch.equal(noisy, near.log_softmax(-1))


def test_operands_of_a_convolution_are_rounded_to_tf32_where_a_gpu_may_take_them_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, w = (torch.randn(shape, requires_grad=True) for shape in ((2, 5, 8, 9), (3, 5, 3, 3)))

    def run(mode: AbstractContextManager[None]) -> list[torch.Tensor]:
        with mode:
            y = F.conv2d(x, w)
            return [y.detach(), *torch.autograd.grad(y.square().sum(), (x, w))]

    plain = run(nullcontext())
    assert all(map(torch.equal, run(as_allowed()), plain))  # a CPU has no TF32
    monkeypatch.setattr(lift, "may_be_tf32", lambda operand: True)
    for found, near in zip(run(as_allowed()), plain, strict=True):
        assert 1e-5 < float((found - near).norm() / near.norm()) < 1e-3
    x, w = x.detach().half().float().requires_grad_(), w.detach().half().float().requires_grad_()
    with as_allowed():
        found = F.conv2d(x, w)
    assert torch.equal(found, F.conv2d(x, w))  # TF32 holds all of half precision


def test_variances_overflow_where_their_squares_do_as_on_a_gpu() -> None:
    rows = torch.tensor([[1e20, 0.0, 0.0, 0.0], [1e18, 1.0, -3.0, 2.0]])
    with as_on_gpu():
        variances, (deviations, means) = rows.var(-1, unbiased=False), torch.std_mean(rows, -1)
        whole = rows[1].var()
    assert torch.equal(variances, torch.tensor([math.inf, float(rows[1].var(unbiased=False))]))
    assert torch.isinf(deviations).tolist() == [True, False]
    assert torch.equal(means, rows.mean(-1)) and torch.equal(whole, rows[1].var())
