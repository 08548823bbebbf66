"""A gather along rows; the gradient compares every index with every column, without atomics."""

import torch
import triton
import triton.language as tl


@triton.jit
def _gather(x_ptr, index_ptr, y_ptr, stride, n_taken, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index_ptr + row * n_taken + k, mask=k < n_taken, other=0)
    tl.store(y_ptr + row * n_taken + k, tl.load(x_ptr + row * stride + at, mask=k < n_taken), mask=k < n_taken)


@triton.jit
def _scatter_add(dy_ptr, index_ptr, dx_ptr, n_taken, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(n_taken):
        at = tl.load(index_ptr + row * n_taken + k)
        dy = tl.load(dy_ptr + row * n_taken + k).to(tl.float32)
        total += tl.where(cols == at, dy, 0.0)
    tl.store(dx_ptr + row * n_cols + cols, total, mask=cols < n_cols)


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, index):
        x = x if x.stride(1) == 1 else x.contiguous()
        index = index.contiguous()
        (n_rows, n_taken), ctx.n_cols = index.shape, x.shape[1]
        y = torch.empty((n_rows, n_taken), dtype=x.dtype, device=x.device)
        _gather[(n_rows, triton.cdiv(n_taken, 128))](x, index, y, x.stride(0), n_taken, BLOCK=128)
        ctx.save_for_backward(index)
        return y

    @staticmethod
    def backward(ctx, dy):
        (index,) = ctx.saved_tensors
        n_rows, n_taken = index.shape
        dx = torch.empty((n_rows, ctx.n_cols), dtype=dy.dtype, device=dy.device)
        grid = (n_rows, triton.cdiv(ctx.n_cols, 256))
        _scatter_add[grid](dy.contiguous(), index, dx, n_taken, ctx.n_cols, BLOCK=256)
        return dx, None


def candidate(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return Gather.apply(x, index)
