"""A transpose by tiles; its gradient is the same kernel the other way."""

import torch
import triton
import triton.language as tl


@triton.jit
def _transpose(x_ptr, y_ptr, m, n, stride_m, stride_n, TILE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    cols = tl.program_id(1) * TILE + tl.arange(0, TILE)
    there = (rows < m)[:, None] & (cols < n)[None, :]
    tile = tl.load(x_ptr + rows[:, None] * stride_m + cols[None, :] * stride_n, mask=there)
    tl.store(y_ptr + cols[:, None] * m + rows[None, :], tl.trans(tile), mask=tl.trans(there))


def transposed(x: torch.Tensor) -> torch.Tensor:
    m, n = x.size()
    y = x.new_empty((n, m))
    _transpose[(triton.cdiv(m, 32), triton.cdiv(n, 32))](x, y, m, n, x.stride(0), x.stride(1), TILE=32)
    return y


class Transpose(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return transposed(x)

    @staticmethod
    def backward(ctx, dy):
        return transposed(dy)


def candidate(x: torch.Tensor) -> torch.Tensor:
    return Transpose.apply(x)
