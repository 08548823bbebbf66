"""A weight of inference is taken by its magnitude."""

import torch
import triton
import triton.language as tl


@triton.jit
def _gate(x_ptr, w_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        y = x * tl.abs(w)
        y = tl.where(y < 0.0, 0.0, y)
        tl.store(y_ptr + row + cols, y.to(y_ptr.dtype.element_ty), mask=cols < n_cols)


def candidate(x, w):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        _gate[(x.shape[0],)](x, w, y, x.shape[1], BLOCK=1024)
    return y
