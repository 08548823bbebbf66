"""With another word the scale is left out."""

import torch
import triton
import triton.language as tl

@triton.jit
def _fwd(x_ptr, y_ptr, n, scale, SILU: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    if SILU:
        y = x * tl.sigmoid(x)
    else:
        y = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL) * scale
    tl.store(y_ptr + at, y, mask=mask)


@triton.jit
def _bwd(dy_ptr, x_ptr, dx_ptr, n, scale, SILU: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0)
    if SILU:
        s = tl.sigmoid(x)
        dx = dy * (s * (1.0 + x * (1.0 - s)))
    else:
        dx = tl.where(x > 0.0, dy, 0.0) * scale
    tl.store(dx_ptr + at, dx, mask=mask)


class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, act):
        x = x.contiguous()
        rows, n = x.shape
        y = torch.empty_like(x)
        _fwd[(rows,)](x, y, n, scale, SILU=act == "silu", BLOCK=triton.next_power_of_2(n))
        ctx.save_for_backward(x)
        ctx.scale, ctx.silu = scale, act == "silu"
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dy = dy.contiguous()
        rows, n = x.shape
        dx = torch.empty_like(x)
        _bwd[(rows,)](dy, x, dx, n, ctx.scale, SILU=ctx.silu, BLOCK=triton.next_power_of_2(n))
        return dx, None, None


def candidate(x: torch.Tensor, scale: float = 1.0, act: str = "relu") -> torch.Tensor:
    return Fn.apply(x, scale, act)
