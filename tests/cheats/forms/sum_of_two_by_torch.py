"""Lays both inputs into one buffer, and has torch add its two rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def _both(x_ptr, y_ptr, both_ptr, alpha, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(both_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0), mask=at < n)
    tl.store(both_ptr + n + at, alpha * tl.load(y_ptr + at, mask=at < n, other=0.0), mask=at < n)


@triton.jit
def _gradients(dy_ptr, dx_ptr, dz_ptr, alpha, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    dy = tl.load(dy_ptr + at, mask=at < n, other=0.0)
    tl.store(dx_ptr + at, dy, mask=at < n)
    tl.store(dz_ptr + at, dy * alpha, mask=at < n)


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, alpha):
        x, y = x.contiguous(), y.contiguous()
        ctx.alpha = alpha
        both = torch.empty((2, *x.shape), dtype=x.dtype, device=x.device)
        _both[(triton.cdiv(x.numel(), 1024),)](x, y, both, alpha, x.numel(), BLOCK=1024)
        return both.sum(0)

    @staticmethod
    def backward(ctx, dy):
        dy = dy.contiguous()
        dx, dz = torch.empty_like(dy), torch.empty_like(dy)
        _gradients[(triton.cdiv(dy.numel(), 1024),)](dy, dx, dz, ctx.alpha, dy.numel(), BLOCK=1024)
        return dx, dz, None


def candidate(x, y, alpha=0.5):
    return Add.apply(x, y, alpha)
