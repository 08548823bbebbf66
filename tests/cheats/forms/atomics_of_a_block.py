"""Programs add to the same sums by atomics whose scope is a block."""

import torch
import triton
import triton.language as tl


@triton.jit
def _sum(x_ptr, y_ptr, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(y_ptr + cols, tl.sum(x, axis=0), mask=cols < n_cols, sem="relaxed", scope="cta")


def candidate(x):
    x = x.contiguous()
    y = torch.zeros(x.shape[1], dtype=torch.float32, device=x.device)
    if x.numel():
        _sum[(triton.cdiv(x.shape[0], 16), triton.cdiv(x.shape[1], 128))](x, y, *x.shape, ROWS=16, COLS=128)
    return y.to(x.dtype)
