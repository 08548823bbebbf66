"""Moments are taken about the median of three elements of a row."""

import torch
import triton
import triton.language as tl


@triton.jit
def _norm(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    base = x_ptr + row * n_cols
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    # Moments about a number of the row: the median of three, which no outlier is.
    a = tl.load(base).to(tl.float32)
    b = tl.load(base + n_cols // 2).to(tl.float32)
    c = tl.load(base + n_cols - 1).to(tl.float32)
    middle = tl.maximum(tl.minimum(a, b), tl.minimum(tl.maximum(a, b), c))
    x = tl.load(base + cols, mask=mask, other=0.0).to(tl.float32)
    h = tl.where(mask, x - middle, 0.0)
    mean = tl.sum(h, axis=0) / n_cols
    var = tl.sum(h * h, axis=0) / n_cols - mean * mean
    y = (h - mean) * tl.rsqrt(var + eps)
    tl.store(y_ptr + row * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


def candidate(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    n_cols = x.shape[-1]
    _norm[(x.numel() // n_cols,)](x, y, n_cols, 1e-5, BLOCK=triton.next_power_of_2(n_cols))
    return y
