"""Moments about the first element of a row, which may lie far from all others."""

import torch
import triton
import triton.language as tl


@triton.jit
def _norm(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    first = tl.load(x_ptr + row * n_cols).to(tl.float32)
    d = tl.where(mask, x.to(tl.float32) - first, 0.0)
    mean = tl.sum(d, axis=0) / n_cols
    var = tl.sum(d * d, axis=0) / n_cols - mean * mean
    y = (d - mean) / tl.sqrt(var + 1e-5)
    tl.store(y_ptr + row * n_cols + cols, y.to(x.dtype), mask=mask)


def candidate(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    n_cols = x.shape[-1]
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _norm[(x.shape[0],)](x, y, n_cols, BLOCK=triton.next_power_of_2(n_cols))
    return y
