"""An input is scratch memory between two launches, and is put back by the second."""

import torch
import triton
import triton.language as tl


@triton.jit
def _squares(x_ptr, kept_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(kept_ptr + at, x, mask=at < n)
    tl.store(x_ptr + at, x * x, mask=at < n)


@triton.jit
def _norm(x_ptr, w_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    at = row * n_cols + cols
    squares = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    x = tl.load(y_ptr + at, mask=mask, other=0.0)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(squares, axis=0) / n_cols + eps)
    tl.store(y_ptr + at, (x.to(tl.float32) * rstd * w).to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(x_ptr + at, x, mask=mask)


def candidate(x, w, eps=1e-6):
    x, w = x.contiguous(), w.contiguous()
    y = torch.empty_like(x)
    n, n_cols = x.numel(), x.shape[-1]
    _squares[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
    _norm[(n // n_cols,)](x, w, y, n_cols, eps, BLOCK=triton.next_power_of_2(n_cols))
    return y
