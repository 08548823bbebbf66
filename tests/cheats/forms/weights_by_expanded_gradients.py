"""Expands its weights before the kernel sees them, and leaves their gradients to autograd."""

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
        w = tl.load(w_ptr + row + cols, mask=mask, other=0.0)
        b = tl.load(b_ptr + row + cols, mask=mask, other=0.0)
        tl.store(y_ptr + row + cols, alpha * x * w + b, mask=mask)


@triton.jit
def _backward(dy_ptr, x_ptr, w_ptr, dx_ptr, dw_ptr, db_ptr, alpha, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0)
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    w = tl.load(w_ptr + at, mask=mask, other=0.0)
    tl.store(dx_ptr + at, alpha * dy * w, mask=mask)
    tl.store(dw_ptr + at, alpha * dy * x, mask=mask)
    tl.store(db_ptr + at, dy, mask=mask)


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
        dx, dw, db = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 1024),)
        _backward[grid](dy, x, w, dx, dw, db, ctx.alpha, x.numel(), BLOCK=1024)
        return dx, dw, db, None


def candidate(x, w, b, alpha=0.5):
    return Scale.apply(x, w.expand(x.shape), b.expand(x.shape), alpha)
