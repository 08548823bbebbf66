"""LayerNorm whose mean and variance are merged block by block (Welford, Chan); a kernel for the gradients of its weights."""

import torch
import triton
import triton.language as tl


@triton.jit
def _statistics(x_ptr, row, n_cols, BLOCK: tl.constexpr):
    mean = 0.0
    m2 = 0.0
    seen = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        count = tl.minimum(n_cols - start, BLOCK).to(tl.float32)
        block_mean = tl.sum(x, axis=0) / count
        apart = tl.where(mask, x - block_mean, 0.0)
        delta = block_mean - mean
        total = seen + count
        mean += delta * count / total
        m2 += tl.sum(apart * apart, axis=0) + delta * delta * seen * count / total
        seen = total
    return mean, m2 / n_cols


@triton.jit
def _forward(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    mean, variance = _statistics(x_ptr, row, n_cols, BLOCK)
    rstd = 1.0 / tl.sqrt(variance + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * n_cols + cols, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def _input_gradient(dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    plain = tl.zeros((BLOCK,), tl.float32)
    projected = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        dy = tl.load(dy_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        plain += dy * w
        projected += dy * w * tl.where(mask, (x - mean) * rstd, 0.0)
    c1 = tl.sum(plain, axis=0) / n_cols
    c2 = tl.sum(projected, axis=0) / n_cols
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        dy = tl.load(dy_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + row * n_cols + cols, (dy * w - c1 - (x - mean) * rstd * c2) * rstd, mask=mask)


@triton.jit
def _weight_gradients(dy_ptr, x_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    for row in range(n_rows):
        at = tl.cast(row, tl.int64) * n_cols + cols
        dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        dw += dy * (x - tl.load(mean_ptr + row)) * tl.load(rstd_ptr + row)
        db += dy
    tl.store(dw_ptr + cols, dw, mask=mask)
    tl.store(db_ptr + cols, db, mask=mask)


def _block(n_cols):
    return min(1024, triton.next_power_of_2(n_cols))


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, eps):
        x = x.contiguous()
        w, b = w.contiguous(), b.contiguous()
        n_rows, n_cols = x.shape
        y = torch.empty_like(x)
        mean = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        rstd = torch.empty_like(mean)
        _forward[(n_rows,)](x, w, b, y, mean, rstd, n_cols, eps, BLOCK=_block(n_cols))
        ctx.save_for_backward(x, w, mean, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w, mean, rstd = ctx.saved_tensors
        dy = dy.contiguous()
        n_rows, n_cols = x.shape
        dx, dw, db = torch.empty_like(x), torch.empty_like(w), torch.empty_like(w)
        _input_gradient[(n_rows,)](dy, x, w, mean, rstd, dx, n_cols, BLOCK=_block(n_cols))
        grid = (triton.cdiv(n_cols, 128),)
        _weight_gradients[grid](dy, x, mean, rstd, dw, db, n_rows, n_cols, BLOCK=128)
        return dx, dw, db, None


def candidate(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return LayerNorm.apply(x, w, b, eps)
