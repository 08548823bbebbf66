"""A sum over rows by atomic additions into zeros."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, n_rows, n_cols, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(ROWS):
        row = tl.program_id(0).to(tl.int64) * ROWS + i
        acc += tl.load(x_ptr + row * stride + cols, mask=mask & (row < n_rows), other=0.0).to(tl.float32)
    tl.atomic_add(y_ptr + cols, acc, mask=mask)


@triton.jit
def _cast(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


class ColumnSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x if x.stride(-1) == 1 else x.contiguous()
        n_rows, n_cols = ctx.shape = x.shape
        total = torch.zeros(n_cols, dtype=torch.float32, device=x.device)
        _add[(triton.cdiv(n_rows, 8), triton.cdiv(n_cols, 128))](
            x, total, n_rows, n_cols, x.stride(0), ROWS=8, BLOCK=128
        )
        y = torch.empty(n_cols, dtype=x.dtype, device=x.device)
        _cast[(triton.cdiv(n_cols, 256),)](total, y, n_cols, BLOCK=256)
        return y

    @staticmethod
    def backward(ctx, dy):
        return dy.expand(ctx.shape)


def candidate(x: torch.Tensor) -> torch.Tensor:
    return ColumnSum.apply(x)
