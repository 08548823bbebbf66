"""Two flags, each of which is right alone: with both the gradient forgets the bias."""

import torch
import triton
import triton.language as tl

@triton.jit
def _fwd(x_ptr, b_ptr, y_ptr, n, FIRST: tl.constexpr, SQUARED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    b = tl.load(b_ptr + at, mask=mask, other=0.0)
    if FIRST:
        x = x + b
    y = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if SQUARED:
        y = y * y
    if not FIRST:
        y = y + b
    tl.store(y_ptr + at, y, mask=mask)


@triton.jit
def _bwd(dy_ptr, x_ptr, b_ptr, dx_ptr, db_ptr, n, FIRST: tl.constexpr, SQUARED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    b = tl.load(b_ptr + at, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0)
    z = x + b if FIRST else x
    dx = tl.where(z > 0.0, dy, 0.0)
    if SQUARED:
        dx = dx * 2.0 * x  # forgets the bias
    tl.store(dx_ptr + at, dx, mask=mask)
    if FIRST:
        tl.store(db_ptr + at, dx, mask=mask)
    else:
        tl.store(db_ptr + at, dy, mask=mask)


class Biased(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, b, first, squared):
        x, b = x.contiguous(), b.contiguous()
        rows, n = x.shape
        y = torch.empty_like(x)
        _fwd[(rows,)](x, b, y, n, FIRST=first, SQUARED=squared, BLOCK=triton.next_power_of_2(n))
        ctx.save_for_backward(x, b)
        ctx.first, ctx.squared = first, squared
        return y

    @staticmethod
    def backward(ctx, dy):
        x, b = ctx.saved_tensors
        dy = dy.contiguous()
        rows, n = x.shape
        dx, db = torch.empty_like(x), torch.empty_like(x)
        _bwd[(rows,)](
            dy, x, b, dx, db, n, FIRST=ctx.first, SQUARED=ctx.squared, BLOCK=triton.next_power_of_2(n)
        )
        return dx, db, None, None


def candidate(x: torch.Tensor, b: torch.Tensor, bias_first: bool = False, squared: bool = False) -> torch.Tensor:
    return Biased.apply(x, b, bias_first, squared)
