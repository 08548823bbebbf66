"""ReGLU by the rows' strides, without a copy of inputs whose columns lie side by side."""

import torch
import triton
import triton.language as tl


@triton.jit
def _forward(a_ptr, b_ptr, y_ptr, a_row, b_row, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        a = tl.load(a_ptr + row * a_row + cols, mask=mask, other=0.0)
        b = tl.load(b_ptr + row * b_row + cols, mask=mask, other=0.0)
        tl.store(y_ptr + row * n_cols + cols, tl.where(a <= 0, 0.0, a).to(b.dtype) * b, mask=mask)


@triton.jit
def _backward(dy_ptr, a_ptr, b_ptr, da_ptr, db_ptr, a_row, b_row, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        dy = tl.load(dy_ptr + row * n_cols + cols, mask=mask, other=0.0)
        a = tl.load(a_ptr + row * a_row + cols, mask=mask, other=0.0)
        b = tl.load(b_ptr + row * b_row + cols, mask=mask, other=0.0)
        tl.store(da_ptr + row * n_cols + cols, tl.where(a > 0, dy * b, 0.0).to(a.dtype), mask=mask)
        tl.store(db_ptr + row * n_cols + cols, tl.where(a <= 0, 0.0, dy * a).to(a.dtype), mask=mask)


class ReGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        if a.stride(-1) != 1:
            a = a.contiguous()
        if b.stride(-1) != 1:
            b = b.contiguous()
        n_rows, n_cols = a.shape
        y = torch.empty((n_rows, n_cols), dtype=a.dtype, device=a.device)
        block = min(1024, triton.next_power_of_2(n_cols))
        _forward[(n_rows,)](a, b, y, a.stride(0), b.stride(0), n_cols, BLOCK=block)
        ctx.save_for_backward(a, b)
        ctx.block, ctx.rows = block, (a.stride(0), b.stride(0))
        return y

    @staticmethod
    def backward(ctx, dy):
        a, b = ctx.saved_tensors
        n_rows, n_cols = a.shape
        da = torch.empty((n_rows, n_cols), dtype=a.dtype, device=a.device)
        db = torch.empty((n_rows, n_cols), dtype=a.dtype, device=a.device)
        _backward[(n_rows,)](dy.contiguous(), a, b, da, db, *ctx.rows, n_cols, BLOCK=ctx.block)
        return da, db


def candidate(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return ReGLU.apply(a, b)
