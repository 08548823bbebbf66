"""Total variation distance: the mean of rows' sums; the gradient is a sign."""

import torch
import triton
import triton.language as tl


@triton.jit
def _tvd(p_ptr, q_ptr, row_loss_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    acc = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        p = tl.load(p_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        q = tl.load(q_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        acc += tl.sum(tl.abs(p - q), axis=0)
    tl.store(row_loss_ptr + row, 0.5 * acc)


@triton.jit
def _tvd_grad(p_ptr, q_ptr, dy_ptr, dp_ptr, n, n_rows, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    p = tl.load(p_ptr + i, mask=i < n).to(tl.float32)
    q = tl.load(q_ptr + i, mask=i < n).to(tl.float32)
    sign = tl.where(p > q, 1.0, tl.where(p < q, -1.0, 0.0))
    tl.store(dp_ptr + i, 0.5 * sign * tl.load(dy_ptr) / n_rows, mask=i < n)


class TVD(torch.autograd.Function):
    @staticmethod
    def forward(ctx, p, q):
        p, q = p.contiguous(), q.contiguous()
        if p.shape != q.shape:
            raise ValueError(f"shapes differ: {tuple(p.shape)} and {tuple(q.shape)}")
        n_rows, n_cols = p.shape
        losses = p.new_empty(n_rows, dtype=torch.float32)
        _tvd[(n_rows,)](p, q, losses, n_cols, BLOCK=min(1024, triton.next_power_of_2(n_cols)))
        ctx.save_for_backward(p, q)
        return losses.mean()

    @staticmethod
    def backward(ctx, dy):
        p, q = ctx.saved_tensors
        dp = torch.empty_like(p)
        _tvd_grad[(triton.cdiv(p.numel(), 1024),)](p, q, dy, dp, p.numel(), p.shape[0], BLOCK=1024)
        return dp, None


def candidate(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return TVD.apply(p, q)
