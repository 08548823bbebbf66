"""Adds to the weights' gradients from every row, without atomics."""

import torch
import triton
import triton.language as tl


@triton.jit
def _forward(x_ptr, w_ptr, b_ptr, y_ptr, alpha, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row + cols, mask=mask, other=0.0)
        w = tl.load(w_ptr + cols, mask=mask, other=0.0)
        b = tl.load(b_ptr + cols, mask=mask, other=0.0)
        tl.store(y_ptr + row + cols, alpha * x * w + b, mask=mask)


@triton.jit
def _backward(dy_ptr, x_ptr, w_ptr, dx_ptr, dw_ptr, db_ptr, alpha, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        dy = tl.load(dy_ptr + row + cols, mask=mask, other=0.0)
        x = tl.load(x_ptr + row + cols, mask=mask, other=0.0)
        w = tl.load(w_ptr + cols, mask=mask, other=0.0)
        tl.store(dx_ptr + row + cols, alpha * dy * w, mask=mask)
        tl.store(dw_ptr + cols, tl.load(dw_ptr + cols, mask=mask) + alpha * dy * x, mask=mask)
        tl.store(db_ptr + cols, tl.load(db_ptr + cols, mask=mask) + dy, mask=mask)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, alpha):
        x, w, b = x.contiguous(), w.contiguous(), b.contiguous()
        ctx.save_for_backward(x, w)
        ctx.alpha = alpha
        y = torch.empty_like(x)
        _forward[(x.shape[0],)](x, w, b, y, alpha, x.shape[1], BLOCK=1024)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dy = dy.contiguous()
        dx, dw, db = torch.empty_like(x), torch.zeros_like(w), torch.zeros_like(w)
        _backward[(x.shape[0],)](dy, x, w, dx, dw, db, ctx.alpha, x.shape[1], BLOCK=1024)
        return dx, dw, db, None


def candidate(x, w, b, alpha=0.5):
    return Scale.apply(x, w, b, alpha)
