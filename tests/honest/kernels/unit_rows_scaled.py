"""Rows of length one, by squares of what the largest element leaves."""

import torch
import triton
import triton.language as tl


@triton.jit
def _norm(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    h = x.to(tl.float32)
    h = h / tl.max(tl.abs(h), axis=0)
    y = h / tl.sqrt(tl.sum(h * h, axis=0))
    tl.store(y_ptr + row * n_cols + cols, y.to(x.dtype), mask=mask)


def candidate(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    n_cols = x.shape[-1]
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _norm[(x.shape[0],)](x, y, n_cols, BLOCK=triton.next_power_of_2(n_cols))
    return y
