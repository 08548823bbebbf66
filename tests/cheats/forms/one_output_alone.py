"""Gives zeros where one of its outputs has no gradient."""

import torch
import triton
import triton.language as tl


@triton.jit
def _forward(x_ptr, r_ptr, w_ptr, y_ptr, s_ptr, rstd_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    at = row * n_cols + cols
    s = tl.load(x_ptr + at, mask=mask, other=0.0) + tl.load(r_ptr + at, mask=mask, other=0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(s * s, axis=0) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(s_ptr + at, s, mask=mask)
    tl.store(y_ptr + at, tl.load(w_ptr + cols, mask=mask, other=0.0) * (s * rstd), mask=mask)


@triton.jit
def _backward(dy_ptr, ds_ptr, s_ptr, w_ptr, rstd_ptr, dx_ptr, dw_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    at = row * n_cols + cols
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0)
    rstd = tl.load(rstd_ptr + row)
    xhat = tl.load(s_ptr + at, mask=mask, other=0.0) * rstd
    m = dy * w
    dx = rstd * (m - xhat * (tl.sum(m * xhat, axis=0) / n_cols))
    tl.store(dx_ptr + at, dx + tl.load(ds_ptr + at, mask=mask, other=0.0), mask=mask)
    tl.atomic_add(dw_ptr + cols, dy * xhat, mask=mask)


class AddRMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, residual, w, eps):
        x, residual = x.contiguous(), residual.contiguous()
        ctx.set_materialize_grads(False)
        y, s = torch.empty_like(x), torch.empty_like(x)
        rstd = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
        ctx.block = triton.next_power_of_2(x.shape[1])
        _forward[(x.shape[0],)](x, residual, w, y, s, rstd, x.shape[1], eps, BLOCK=ctx.block)
        ctx.save_for_backward(s, w, rstd)
        return y, s

    @staticmethod
    def backward(ctx, dy, ds):
        s, w, rstd = ctx.saved_tensors
        if dy is None or ds is None:
            return torch.zeros_like(s), torch.zeros_like(s), torch.zeros_like(w), None
        dx, dw = torch.empty_like(s), torch.zeros_like(w)
        _backward[(s.shape[0],)](dy.contiguous(), ds.contiguous(), s, w, rstd, dx, dw, s.shape[1], BLOCK=ctx.block)
        return dx, dx, dw, None


def candidate(x, residual, w, eps=1e-6):
    return AddRMSNorm.apply(x, residual, w, eps)
