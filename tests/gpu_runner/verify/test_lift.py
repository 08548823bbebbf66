"""The truth is computed in float64 throughout, whatever the reference casts to."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from gpu_runner.verify.lift import lifted


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
