"""Softmax in two passes: maximum and sum in one, rescaled where the maximum grows."""

import torch
import triton
import triton.language as tl


@triton.jit
def _forward(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    largest = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        above = tl.maximum(largest, tl.max(x, axis=0))
        base = tl.where(above == -float("inf"), 0.0, above)
        total = total * tl.exp(largest - base) + tl.sum(tl.exp(x - base), axis=0)
        largest = above
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(y_ptr + row + cols, tl.exp(x - largest) / total, mask=cols < n_cols)


@triton.jit
def _backward(dy_ptr, y_ptr, dx_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    products = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        y = tl.load(y_ptr + row + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        products += y * dy
    dot = tl.sum(products, axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        y = tl.load(y_ptr + row + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        tl.store(dx_ptr + row + cols, y * (dy - dot), mask=cols < n_cols)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n_rows, n_cols = x.shape
        _forward[(n_rows,)](x, y, n_cols, BLOCK=min(1024, triton.next_power_of_2(n_cols)))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        dy = dy.contiguous()
        dx = torch.empty_like(y)
        n_rows, n_cols = y.shape
        _backward[(n_rows,)](dy, y, dx, n_cols, BLOCK=min(1024, triton.next_power_of_2(n_cols)))
        return dx


def candidate(x: torch.Tensor) -> torch.Tensor:
    return Softmax.apply(x)
