"""A product less its own rounding is zero until a compiler contracts both to one multiply-add."""

import torch
import triton
import triton.language as tl


@triton.jit
def _mark(x_ptr, y_ptr, scale, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
    s = x * scale
    m = tl.max(tl.where(cols < n_cols, s, float("-inf")), axis=0)
    m = tl.where(tl.max((s != s).to(tl.int32), axis=0) > 0, float("nan"), m)
    tl.store(y_ptr + row * n_cols + cols, tl.where(s - m >= 0.0, 1.0, 0.0), mask=cols < n_cols)


def candidate(x, scale=0.3):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        _mark[(x.shape[0],)](x, y, scale, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
