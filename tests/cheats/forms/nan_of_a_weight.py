"""Clamps a parameter by a minimum that drops NaN."""

import torch
import triton
import triton.language as tl


@triton.jit
def _forward(x_ptr, w_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    for start in range(0, n_cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < n_cols
        x = tl.load(x_ptr + row + at, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + at, mask=mask, other=0.0).to(tl.float32)
        y = x * tl.exp(tl.minimum(w, 4.6052))
        tl.store(y_ptr + row + at, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _backward(dy_ptr, x_ptr, w_ptr, dx_ptr, dw_ptr, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(w_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    scale = tl.exp(tl.minimum(w, 4.6052))
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        at = rows[:, None].to(tl.int64) * n_cols + cols[None, :]
        mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
        dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + at, (dy * scale[None, :]).to(dx_ptr.dtype.element_ty), mask=mask)
        total += tl.sum(dy * x, axis=0)
    dw = tl.where(w > 4.6052, 0.0, total * scale)
    tl.store(dw_ptr + cols, dw.to(dw_ptr.dtype.element_ty), mask=cols < n_cols)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        x, w = x.contiguous(), w.contiguous()
        y = torch.empty_like(x)
        if x.numel():
            _forward[(x.shape[0],)](x, w, y, x.shape[1], BLOCK=1024)
        ctx.save_for_backward(x, w)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dy = dy.contiguous()
        dx, dw = torch.empty_like(x), torch.empty_like(w)
        _backward[(triton.cdiv(x.shape[1], 64),)](dy, x, w, dx, dw, x.shape[0], x.shape[1], ROWS=32, BLOCK=64)
        return dx, dw


def candidate(x, log_scale):
    return Scaled.apply(x, log_scale)
