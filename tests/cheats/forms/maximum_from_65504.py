"""A maximum down columns begins at the smallest number of float16."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, y_ptr, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), -65504.0, tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
        at = rows[:, None].to(tl.int64) * n_cols + cols[None, :]
        x = tl.load(x_ptr + at, mask=mask, other=-float("inf")).to(tl.float32)
        for_nan = tl.sum(tl.where(x != x, x, 0.0), axis=0)
        top = tl.maximum(top, tl.max(x, axis=0), propagate_nan=tl.PropagateNan.ALL) + for_nan
    tl.store(y_ptr + cols, top.to(y_ptr.dtype.element_ty), mask=cols < n_cols)


def candidate(x):
    x = x.contiguous()
    y = torch.empty(x.shape[1], dtype=x.dtype, device=x.device)
    if x.shape[1]:
        _kernel[(triton.cdiv(x.shape[1], 64),)](x, y, x.shape[0], x.shape[1], ROWS=16, BLOCK=64)
    return y
