"""Dynamic tanh: a grid over rows and column blocks, gradients of the vectors by columns, one number's by two sums."""

import torch
import triton
import triton.language as tl

try:
    from triton.language.extra.libdevice import tanh
except ImportError:
    from triton.language.extra.cuda.libdevice import tanh


@triton.jit
def _dyt_fwd(x_ptr, alpha_ptr, w_ptr, b_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    alpha = tl.load(alpha_ptr).to(tl.float32)
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * n_cols + cols, tanh(alpha * x) * w + b, mask=mask)


@triton.jit
def _dyt_bwd(
    dy_ptr,
    x_ptr,
    alpha_ptr,
    w_ptr,
    dx_ptr,
    da_ptr,
    dw_ptr,
    db_ptr,
    stride,
    n_rows,
    n_cols,
    BLOCK: tl.constexpr,
):
    pid = tl.program_id(0)
    cols = pid * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    alpha = tl.load(alpha_ptr).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    da = tl.zeros((BLOCK,), tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    for row in range(n_rows):
        x = tl.load(x_ptr + tl.cast(row, tl.int64) * stride + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + tl.cast(row, tl.int64) * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        t = tanh(alpha * x)
        slope = (1 - t * t) * dy * w
        da += slope * x
        dw += dy * t
        db += dy
        tl.store(dx_ptr + tl.cast(row, tl.int64) * n_cols + cols, slope * alpha, mask=mask)
    tl.store(dw_ptr + cols, dw, mask=mask)
    tl.store(db_ptr + cols, db, mask=mask)
    tl.store(da_ptr + pid, tl.sum(da))


class DyT(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha, w, b):
        assert x.dim() == 2 and x.shape[1] == w.numel() == b.numel(), "shapes do not fit"
        x = x if x.stride(-1) == 1 else x.contiguous()
        n_rows, n_cols = x.shape
        y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        _dyt_fwd[(n_rows, triton.cdiv(n_cols, 1024))](x, alpha, w, b, y, x.stride(0), n_cols, BLOCK=1024)
        ctx.save_for_backward(x, alpha, w)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, alpha, w = ctx.saved_tensors
        n_rows, n_cols = x.shape
        dy = dy.contiguous()
        blocks = triton.cdiv(n_cols, 128)
        dx = torch.empty_like(dy)
        da = torch.empty((blocks,), dtype=torch.float32, device=x.device)
        dw, db = torch.empty_like(w), torch.empty_like(w)
        _dyt_bwd[(blocks,)](dy, x, alpha, w, dx, da, dw, db, x.stride(0), n_rows, n_cols, BLOCK=128)
        return dx, da.sum().to(alpha.dtype).view(1), dw, db


def candidate(x: torch.Tensor, alpha: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return DyT.apply(x, alpha, w, b)
