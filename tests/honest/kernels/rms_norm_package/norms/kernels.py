"""Kernels of RMSNorm."""

import triton
import triton.language as tl


@triton.jit
def rms_forward(x_ptr, w_ptr, y_ptr, rstd_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
    h = x.to(tl.float32)
    rstd = tl.rsqrt(tl.sum(h * h, axis=0) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    w = tl.load(w_ptr + cols, mask=cols < n_cols, other=0.0)
    tl.store(y_ptr + row * n_cols + cols, w * (h * rstd).to(x.dtype), mask=cols < n_cols)


@triton.jit
def rms_backward(dy_ptr, x_ptr, w_ptr, rstd_ptr, dx_ptr, dw_ptr, n_rows, n_cols, rows, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    for row in range(pid * rows, tl.minimum((pid + 1) * rows, n_rows)):
        at = tl.cast(row, tl.int64) * n_cols + cols
        xhat = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32) * tl.load(rstd_ptr + row)
        dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
        m = dy * w
        dx = tl.load(rstd_ptr + row) * (m - xhat * (tl.sum(m * xhat, axis=0) / n_cols))
        tl.store(dx_ptr + at, dx, mask=mask)
        dw += dy * xhat
    tl.store(dw_ptr + pid * n_cols + cols, dw, mask=mask)
