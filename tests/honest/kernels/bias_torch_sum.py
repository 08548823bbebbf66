"""A bias over rows: its gradient by ``torch.sum``, the other one is the upstream gradient."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add_bias(x_ptr, b_ptr, y_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    b = tl.load(b_ptr + cols, mask=cols < n_cols, other=0.0)
    at = rows.to(tl.int64)[:, None] * n_cols + cols[None, :]
    mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=mask) + b[None, :], mask=mask)


class AddBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, b):
        x = x.contiguous()
        y = torch.empty_like(x)
        n_rows, n_cols = x.shape
        _add_bias[(triton.cdiv(n_rows, 16), triton.cdiv(n_cols, 64))](x, b, y, n_rows, n_cols, 16, 64)
        return y

    @staticmethod
    def backward(ctx, dy):
        dx = dy if ctx.needs_input_grad[0] else None
        db = torch.sum(dy, 0) if ctx.needs_input_grad[1] else None
        return dx, db


def candidate(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return AddBias.apply(x, b)
