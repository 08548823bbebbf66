"""The largest element of a row and its index, which is marked as not differentiable."""

import torch
import triton
import triton.language as tl


@triton.jit
def _row_max(x_ptr, value_ptr, index_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf"))
    # NaN is larger than anything, as in torch; the leftmost one counts.
    nan = tl.min(tl.where((x != x) & (cols < n_cols), cols, BLOCK), axis=0)
    at = tl.argmax(tl.where(x != x, -float("inf"), x), axis=0)
    at = tl.where(nan < BLOCK, nan, at)
    tl.store(value_ptr + row, tl.load(x_ptr + row * stride + at))
    tl.store(index_ptr + row, at.to(tl.int64))


@triton.jit
def _row_max_grad(dy_ptr, index_ptr, dx_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    hit = cols == tl.load(index_ptr + row)
    tl.store(dx_ptr + row * n_cols + cols, tl.where(hit, tl.load(dy_ptr + row), 0.0), mask=cols < n_cols)


class RowMax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x if x.stride(-1) == 1 else x.contiguous()
        n_rows, n_cols = x.shape
        values = torch.empty(n_rows, dtype=x.dtype, device=x.device)
        indices = torch.empty(n_rows, dtype=torch.int64, device=x.device)
        _row_max[(n_rows,)](x, values, indices, x.stride(0), n_cols, BLOCK=triton.next_power_of_2(n_cols))
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        ctx.n_cols = n_cols
        return values, indices

    @staticmethod
    def backward(ctx, dy, _):
        (indices,) = ctx.saved_tensors
        dx = torch.empty((indices.numel(), ctx.n_cols), dtype=dy.dtype, device=dy.device)
        block = triton.next_power_of_2(ctx.n_cols)
        _row_max_grad[(indices.numel(),)](dy.contiguous(), indices, dx, ctx.n_cols, BLOCK=block)
        return dx


def candidate(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return RowMax.apply(x)
