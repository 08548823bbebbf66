"""SwiGLU forward and backward."""

import torch
import triton
import triton.language as tl

from .activations import silu
from .utils import calculate_settings, ensure_contiguous


@triton.jit
def _swiglu_forward_kernel(a_ptr, b_ptr, c_ptr, stride, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * stride + tl.arange(0, BLOCK_SIZE)
    mask = tl.arange(0, BLOCK_SIZE) < n_cols
    a_row = tl.load(a_ptr + at, mask=mask, other=0).to(tl.float32)
    b_row = tl.load(b_ptr + at, mask=mask, other=0)
    tl.store(c_ptr + at, silu(a_row).cast(b_row.dtype) * b_row, mask=mask)


@triton.jit
def _swiglu_backward_kernel(
    dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, stride, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    at = tl.program_id(0).to(tl.int64) * stride + tl.arange(0, BLOCK_SIZE)
    mask = tl.arange(0, BLOCK_SIZE) < n_cols
    dc_row = tl.load(dc_ptr + at, mask=mask, other=0)
    a_row = tl.load(a_ptr + at, mask=mask, other=0).to(tl.float32)
    b_row = tl.load(b_ptr + at, mask=mask, other=0)
    sig_a = tl.sigmoid(a_row)
    silu_a = a_row * sig_a
    tl.store(db_ptr + at, dc_row * silu_a, mask=mask)
    tl.store(da_ptr + at, dc_row * (silu_a * (1 - sig_a) + sig_a) * b_row, mask=mask)


class SwiGLUFunction(torch.autograd.Function):
    @staticmethod
    @ensure_contiguous
    def forward(ctx, a, b):
        n_cols = a.shape[-1]
        rows = a.view(-1, n_cols)
        c = torch.empty_like(rows)
        block_size, num_warps = calculate_settings(n_cols)
        _swiglu_forward_kernel[(rows.shape[0],)](
            rows, b.view(-1, n_cols), c, n_cols, n_cols=n_cols, BLOCK_SIZE=block_size, num_warps=num_warps
        )
        ctx.save_for_backward(a, b)
        return c.view(a.shape)

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        n_cols = a.shape[-1]
        da, db = torch.empty_like(a), torch.empty_like(b)
        block_size, num_warps = calculate_settings(n_cols)
        _swiglu_backward_kernel[(a.numel() // n_cols,)](
            dc, a, b, da, db, n_cols, n_cols=n_cols, BLOCK_SIZE=block_size, num_warps=num_warps
        )
        return da, db
