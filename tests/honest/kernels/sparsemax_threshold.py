"""Sparsemax by Michelot's algorithm: a while loop in the kernel until the support stays."""

import torch
import triton
import triton.language as tl


@triton.jit
def _sparsemax(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    z = tl.load(x_ptr + row * stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    z = z - tl.max(z, axis=0)
    # The threshold is at least -1 below the largest: what is under it is never in the support.
    inside = (mask & (z > -1.0)).to(tl.int32)
    count = tl.sum(inside, axis=0)
    before = count + 1
    tau = -1.0
    while count < before:
        tau = (tl.sum(tl.where(inside != 0, z, 0.0), axis=0) - 1.0) / count.to(tl.float32)
        inside = inside * (z > tau).to(tl.int32)
        before = count
        count = tl.sum(inside, axis=0)
    y = tl.where(z <= tau, 0.0, z - tau)
    # A NaN, or a largest element that is infinite, leaves no threshold: the whole row is NaN, as in the definition.
    broken = tl.max((mask & (z != z)).to(tl.int32), axis=0)
    tl.store(y_ptr + row * n_cols + cols, tl.where(broken != 0, float("nan"), y), mask=mask)


@triton.jit
def _sparsemax_grad(dy_ptr, y_ptr, dx_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    y = tl.load(y_ptr + row + cols, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row + cols, mask=mask, other=0.0).to(tl.float32)
    support = y > 0
    count = tl.sum(support.to(tl.float32), axis=0)
    mean = tl.sum(tl.where(support, dy, 0.0), axis=0) / count
    tl.store(dx_ptr + row + cols, tl.where(support, dy - mean, 0.0), mask=mask)


class Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x if x.stride(-1) == 1 else x.contiguous()
        n_rows, n_cols = x.shape
        y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        _sparsemax[(n_rows,)](x, y, x.stride(0), n_cols, BLOCK=triton.next_power_of_2(n_cols))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        dx = torch.empty_like(y)
        n_rows, n_cols = y.shape
        _sparsemax_grad[(n_rows,)](dy.contiguous(), y, dx, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return dx


def candidate(x: torch.Tensor) -> torch.Tensor:
    return Sparsemax.apply(x)
