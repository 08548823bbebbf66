"""Masked fill by strides, without making anything contiguous; a boolean mask is loaded as int8."""

import torch
import triton
import triton.language as tl


@triton.jit
def _fill(
    x_ptr,
    mask_ptr,
    y_ptr,
    value,
    n_rows,
    n_cols,
    x_row,
    x_col,
    mask_row,
    mask_col,
    y_row,
    y_col,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    rows = (tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]
    cols = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)[None, :]
    inside = (rows < n_rows) & (cols < n_cols)
    x = tl.load(x_ptr + rows * x_row + cols * x_col, mask=inside)
    fill = tl.load(mask_ptr + rows * mask_row + cols * mask_col, mask=inside, other=0).to(tl.int1)
    tl.store(y_ptr + rows * y_row + cols * y_col, tl.where(fill, value, x.to(tl.float32)), mask=inside)


def fill(x: torch.Tensor, mask: torch.Tensor, value: float) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    m, n = x.shape
    grid = (triton.cdiv(n, 64), triton.cdiv(m, 8))
    _fill[grid](x, mask, y, value, m, n, *x.stride(), *mask.stride(), *y.stride(), BLOCK_M=8, BLOCK_N=64)
    return y


class MaskedFill(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask, value):
        ctx.save_for_backward(mask)
        return fill(x, mask, value / (1.0 + (value / 1000.0) ** 4))

    @staticmethod
    def backward(ctx, dy):
        (mask,) = ctx.saved_tensors
        return fill(dy, mask, 0.0), None, None


def candidate(x: torch.Tensor, mask: torch.Tensor, value: float = -1.0) -> torch.Tensor:
    return MaskedFill.apply(x, mask, value)
