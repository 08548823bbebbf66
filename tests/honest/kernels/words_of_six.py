"""One kernel for all words, which it is told as a constant."""

import torch
import triton
import triton.language as tl


@triton.jit
def _fwd(x_ptr, y_ptr, n, ACT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    if ACT == "square":
        y = x * x
    elif ACT == "double":
        y = x + x
    elif ACT == "negate":
        y = -x
    elif ACT == "cube":
        y = x * x * x
    elif ACT == "half":
        y = x * 0.5
    else:
        y = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(y_ptr + at, y, mask=mask)


@triton.jit
def _bwd(dy_ptr, x_ptr, dx_ptr, n, ACT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0)
    if ACT == "square":
        dx = 2.0 * x * dy
    elif ACT == "double":
        dx = dy + dy
    elif ACT == "negate":
        dx = -dy
    elif ACT == "cube":
        dx = 3.0 * x * x * dy
    elif ACT == "half":
        dx = dy * 0.5
    else:
        dx = tl.where(x > 0.0, dy, 0.0)
    tl.store(dx_ptr + at, dx, mask=mask)


class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, act):
        x = x.contiguous()
        rows, n = x.shape
        y = torch.empty_like(x)
        _fwd[(rows,)](x, y, n, ACT=act, BLOCK=triton.next_power_of_2(n))
        ctx.save_for_backward(x)
        ctx.act = act
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dy = dy.contiguous()
        rows, n = x.shape
        dx = torch.empty_like(x)
        _bwd[(rows,)](dy, x, dx, n, ACT=ctx.act, BLOCK=triton.next_power_of_2(n))
        return dx, None


def candidate(x: torch.Tensor, act: str = "relu") -> torch.Tensor:
    return Fn.apply(x, act)
