"""tl.associative_scan by a helper of a helper, a NaN kept by hand."""

import torch
import triton
import triton.language as tl


@triton.jit
def _is_nan(x):
    return x != x


@triton.jit
def _larger(left, right):
    return tl.where(_is_nan(left) | (left > right), left, right)


@triton.jit
def _running(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    tl.store(y_ptr + row * n_cols + cols, tl.associative_scan(x, 0, _larger), mask=cols < n_cols)


def candidate(x):
    x = x if x.stride(-1) == 1 else x.contiguous()
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    _running[(n_rows,)](x, y, x.stride(0), n_cols, BLOCK=triton.next_power_of_2(n_cols))
    return y
