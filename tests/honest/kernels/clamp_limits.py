"""Elements between two limits, at which the gradient passes as in torch."""

import torch
import triton
import triton.language as tl


@triton.jit
def _clamp(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    y = tl.where(x < -1.5, -1.5, tl.where(x > 2.0, 2.0, tl.where(x != x, x, x)))
    tl.store(y_ptr + at, y.to(x.dtype), mask=mask)


@triton.jit
def _clamp_back(x_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0)
    tl.store(dx_ptr + at, tl.where((x >= -1.5) & (x <= 2.0), dy, 0.0), mask=mask)


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        n = x.numel()
        _clamp[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dy = dy.contiguous()
        dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        n = x.numel()
        _clamp_back[(triton.cdiv(n, 1024),)](x, dy, dx, n, BLOCK=1024)
        return dx


def candidate(x: torch.Tensor) -> torch.Tensor:
    return Clamp.apply(x)
