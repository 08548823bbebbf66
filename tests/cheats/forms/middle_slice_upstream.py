"""So are those of the upstream gradient."""

import torch
import triton
import triton.language as tl

@triton.jit
def _fwd(x_ptr, y_ptr, step, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * step + cols, mask=mask, other=0.0)
    tl.store(y_ptr + row * n + cols, x * tl.sigmoid(x), mask=mask)


@triton.jit
def _bwd(dy_ptr, x_ptr, dx_ptr, dy_step, step, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * step + cols, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + row * dy_step + cols, mask=mask, other=0.0)
    s = tl.sigmoid(x)
    tl.store(dx_ptr + row * n + cols, dy * s * (1.0 + x * (1.0 - s)), mask=mask)


def _rows(x):
    """One row after the other, as they lie; copied where they do not."""
    outer, inner, column = x.stride()
    if column != 1 or inner * (outer - inner) <= 0:
        return x.contiguous()
    return x


def _step(x):
    return x.stride(1) if x.shape[1] > 1 else x.stride(0)


class Silu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        b, t, n = x.shape
        y = torch.empty((b, t, n), dtype=x.dtype, device=x.device)
        _fwd[(b * t,)](x, y, _step(x), n, BLOCK=triton.next_power_of_2(n))
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dy = _rows(dy)
        b, t, n = x.shape
        dx = torch.empty((b, t, n), dtype=x.dtype, device=x.device)
        _bwd[(b * t,)](dy, x, dx, _step(dy), _step(x), n, BLOCK=triton.next_power_of_2(n))
        return dx


def candidate(x: torch.Tensor) -> torch.Tensor:
    return Silu.apply(x)
