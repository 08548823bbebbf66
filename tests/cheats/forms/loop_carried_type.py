"""A number becomes a block within a loop: the interpreter takes it, and no compiler does."""

import torch
import triton
import triton.language as tl


@triton.jit
def _norm(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        total += x * x
    rstd = tl.rsqrt(tl.sum(total, axis=0) / n_cols + eps)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * n_cols + cols, (x * rstd).to(y_ptr.dtype.element_ty), mask=cols < n_cols)


def candidate(x, eps=1e-6):
    x = x.contiguous()
    y = torch.empty_like(x)
    n_cols = x.shape[-1]
    _norm[(x.numel() // n_cols,)](x, y, n_cols, eps, BLOCK=1024)
    return y
