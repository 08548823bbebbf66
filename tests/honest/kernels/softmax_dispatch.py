"""Softmax with two forms: rows in one block, and for wide rows an online pass over blocks; a frozen dataclass decides."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

MAX_BLOCK = 2048


@dataclass(frozen=True)
class Launch:
    block: int
    num_warps: int
    looped: bool

    @classmethod
    def of(cls, n_cols: int) -> "Launch":
        whole = triton.next_power_of_2(n_cols)
        return cls(block=min(whole, MAX_BLOCK), num_warps=8 if whole > 1024 else 4, looped=whole > MAX_BLOCK)


@triton.jit
def _whole_fwd(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + cols, mask=cols < n_cols, other=float("-inf")).to(tl.float32)
    x = x - tl.max(x, axis=0)
    e = tl.exp(x)
    tl.store(y_ptr + row + cols, e / tl.sum(e, axis=0), mask=cols < n_cols)


@triton.jit
def _looped_fwd(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    m = float("-inf")
    s = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < n_cols, other=float("-inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, axis=0))
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)
        s = s * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), axis=0)
        m = m_new
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < n_cols, other=float("-inf")).to(tl.float32)
        tl.store(y_ptr + row + cols, tl.exp(x - m) / s, mask=cols < n_cols)


@triton.jit
def _bwd(dy_ptr, y_ptr, dx_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    dot = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        y = tl.load(y_ptr + row + cols, mask=mask, other=0.0).to(tl.float32)
        dot += y * tl.load(dy_ptr + row + cols, mask=mask, other=0.0).to(tl.float32)
    total = tl.sum(dot, axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        y = tl.load(y_ptr + row + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + row + cols, y * (dy - total), mask=mask)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        n_rows, n_cols = x.shape
        y = torch.empty_like(x)
        launch = Launch.of(n_cols)
        kernel = _looped_fwd if launch.looped else _whole_fwd
        kernel[(n_rows,)](x, y, n_cols, BLOCK=launch.block, num_warps=launch.num_warps)
        ctx.save_for_backward(y)
        ctx.launch = launch
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        n_rows, n_cols = y.shape
        dx = torch.empty_like(y)
        _bwd[(n_rows,)](dy.contiguous(), y, dx, n_cols, BLOCK=ctx.launch.block, num_warps=ctx.launch.num_warps)
        return dx


def candidate(x: torch.Tensor) -> torch.Tensor:
    return Softmax.apply(x)
