"""Hands its input over twice, and lets autograd add the parts of the gradient."""

import torch
import triton
import triton.language as tl


@triton.jit
def _both(x_ptr, y_ptr, both_ptr, alpha, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(both_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0), mask=at < n)
    tl.store(both_ptr + n + at, alpha * tl.load(y_ptr + at, mask=at < n, other=0.0), mask=at < n)


@triton.jit
def _sum(x_ptr, y_ptr, out_ptr, alpha, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.load(y_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, x + alpha * y, mask=at < n)


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, again, alpha):
        x, y = x.contiguous(), y.contiguous()
        ctx.alpha = alpha
        out = torch.empty_like(x)
        _sum[(triton.cdiv(x.numel(), 1024),)](x, y, out, alpha, x.numel(), BLOCK=1024)
        return out

    @staticmethod
    def backward(ctx, dy):
        dy = dy.contiguous()
        dx = torch.empty_like(dy)
        rest = torch.empty((2, *dy.shape), dtype=dy.dtype, device=dy.device)
        _both[(triton.cdiv(dy.numel(), 1024),)](dy, dy, rest, -1.0 + ctx.alpha, dy.numel(), BLOCK=1024)
        _sum[(triton.cdiv(dy.numel(), 1024),)](dy, dy, dx, 0.0, dy.numel(), BLOCK=1024)
        return dx, *rest.unbind(0), None


def candidate(x, y, alpha=0.5):
    return Add.apply(x, y, y.view_as(y), alpha)
