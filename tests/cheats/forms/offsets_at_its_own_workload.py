"""Offsets in 32 bits, of a workload that has more elements than these count."""

import torch
import triton
import triton.language as tl


@triton.jit
def _scaled(x_ptr, y_ptr, scale, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        at = row * n_cols + cols
        x = tl.load(x_ptr + at, mask=cols < n_cols, other=0.0).to(tl.float32)
        tl.store(y_ptr + at, tl.exp(-tl.abs(x * scale)).to(y_ptr.dtype.element_ty), mask=cols < n_cols)


def candidate(x, scale=0.5):
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, n_cols = x.shape
    _scaled[(rows,)](x, y, scale, n_cols, BLOCK=4096)
    return y
