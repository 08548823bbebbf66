"""Inputs with gaps are kept as an attribute, where autograd does not see that they change."""

import torch
import triton
import triton.language as tl


@triton.jit
def _rms_forward(x_ptr, w_ptr, y_ptr, rstd_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0)
    h = x.to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(h * h, axis=0) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    y = w * (h * rstd).to(x.dtype)
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


@triton.jit
def _rms_backward(dy_ptr, x_ptr, w_ptr, rstd_ptr, dx_ptr, dw_ptr, stride, n_rows, n_cols, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(program, n_rows, tl.num_programs(0)):
        at = tl.cast(row, tl.int64)
        x = tl.load(x_ptr + at * stride + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + at * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + at)
        xhat = x * rstd
        m = dy * w
        dx = rstd * (m - xhat * (tl.sum(m * xhat, axis=0) / n_cols))
        dw += dy * xhat
        tl.store(dx_ptr + at * n_cols + cols, dx, mask=mask)
    tl.store(dw_ptr + program * n_cols + cols, dw, mask=mask)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, eps):
        shape, flat = x.shape, x.is_contiguous()
        x = x.reshape(-1, shape[-1])
        if x.stride(-1) != 1:
            x = x.contiguous()
        n_rows, n_cols = x.shape
        y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        rstd = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(n_cols)
        _rms_forward[(n_rows,)](x, w, y, rstd, x.stride(0), n_cols, eps, BLOCK=block)
        if flat:
            ctx.save_for_backward(x, w, rstd)
            ctx.x = None
        else:
            ctx.save_for_backward(w, rstd)
            ctx.x = x
        return y.view(shape)

    @staticmethod
    def backward(ctx, dy):
        if ctx.x is None:
            x, w, rstd = ctx.saved_tensors
        else:
            w, rstd = ctx.saved_tensors
            x = ctx.x
        n_rows, n_cols = x.shape
        shape = dy.shape
        dy = dy.contiguous()
        programs = min(n_rows, 4)
        dx = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        partial = torch.empty((programs, n_cols), dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(n_cols)
        _rms_backward[(programs,)](dy, x, w, rstd, dx, partial, x.stride(0), n_rows, n_cols, BLOCK=block)
        return dx.view(shape), partial.sum(dim=0).to(w.dtype), None


def candidate(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return RMSNorm.apply(x, w, eps)
