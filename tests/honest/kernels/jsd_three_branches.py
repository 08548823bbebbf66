"""Generalised Jensen-Shannon divergence: loss and gradient in one pass, special betas by constexpr flags."""

import torch
import triton
import triton.language as tl


@triton.jit
def _jsd(
    x_ptr,
    y_ptr,
    loss_ptr,
    dx_ptr,
    n_rows,
    n_cols,
    beta,
    FORWARD_KL: tl.constexpr,
    REVERSE_KL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * n_cols
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row + cols, mask=mask, other=-float("inf")).to(tl.float32)
        y = tl.load(y_ptr + row + cols, mask=mask, other=-float("inf")).to(tl.float32)
        q = tl.exp(x)
        p = tl.exp(y)
        if FORWARD_KL:
            loss = p * (y - x)
            dx = -p
        elif REVERSE_KL:
            loss = q * (x - y)
            dx = loss + q
        else:
            log_m = tl.log(beta * p + (1 - beta) * q)
            loss = beta * p * (y - log_m) + (1 - beta) * q * (x - log_m)
            dx = (1 - beta) * q * (x - log_m)
        total += tl.where(mask, loss, 0.0)
        tl.store(dx_ptr + row + cols, dx / n_rows, mask=mask)
    tl.store(loss_ptr + tl.program_id(0), tl.sum(total, axis=0) / n_rows)


@triton.jit
def _scale(g_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dx_ptr + i, tl.load(g_ptr + i, mask=i < n) * tl.load(dy_ptr), mask=i < n)


class JSD(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, beta):
        x, y = (t.contiguous() for t in (x, y))
        n_rows, n_cols = x.shape
        loss = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        grad = torch.empty(x.shape, dtype=torch.float32, device=x.device)
        flags = {"FORWARD_KL": beta == 0.0, "REVERSE_KL": beta == 1.0}
        block = min(1024, triton.next_power_of_2(n_cols))
        _jsd[(n_rows,)](x, y, loss, grad, n_rows, n_cols, beta, **flags, BLOCK=block)
        ctx.save_for_backward(grad)
        ctx.dtype = x.dtype
        return loss.sum()

    @staticmethod
    def backward(ctx, dy):
        (grad,) = ctx.saved_tensors
        dx = torch.empty(grad.shape, dtype=ctx.dtype, device=grad.device)
        _scale[(triton.cdiv(dx.numel(), 1024),)](grad, dy, dx, dx.numel(), BLOCK=1024)
        return dx, None, None


def candidate(x: torch.Tensor, y: torch.Tensor, beta: float = 0.5) -> torch.Tensor:
    return JSD.apply(x, y, beta)
