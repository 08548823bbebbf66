"""The allocator for the backward's descriptors is set in the forward, and unknown to autograd's thread on a GPU."""

from typing import Optional

import torch
import triton
import triton.language as tl


def alloc_fn(size: int, alignment: int, stream: Optional[int]):  # noqa: UP045 - as Triton's examples have it
    return torch.empty(size, device="cuda", dtype=torch.int8)


@triton.jit
def _tiles(x_ptr, y_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    x_desc = tl.make_tensor_descriptor(x_ptr, [n_rows, n_cols], [n_cols, 1], [BLOCK_M, BLOCK_N])
    y_desc = tl.make_tensor_descriptor(y_ptr, [n_rows, n_cols], [n_cols, 1], [BLOCK_M, BLOCK_N])
    row = tl.program_id(0) * BLOCK_M
    col = tl.program_id(1) * BLOCK_N
    x = x_desc.load([row, col]).to(tl.float32)
    r = tl.where(x <= 0, 0.0, x)
    y_desc.store([row, col], (r * r).to(y_ptr.dtype.element_ty))


@triton.jit
def _flat(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    r = tl.where(x <= 0, 0.0, x)
    tl.store(y_ptr + i, r * r, mask=i < n)


@triton.jit
def _grad(dy_ptr, x_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    dy = tl.load(dy_ptr + i, mask=i < n).to(tl.float32)
    tl.store(dx_ptr + i, tl.where(x <= 0, 0.0, 2.0 * x * dy), mask=i < n)


@triton.jit
def _grad_tiles(dy_ptr, x_ptr, dx_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    dy_desc = tl.make_tensor_descriptor(dy_ptr, [n_rows, n_cols], [n_cols, 1], [BLOCK_M, BLOCK_N])
    x_desc = tl.make_tensor_descriptor(x_ptr, [n_rows, n_cols], [n_cols, 1], [BLOCK_M, BLOCK_N])
    dx_desc = tl.make_tensor_descriptor(dx_ptr, [n_rows, n_cols], [n_cols, 1], [BLOCK_M, BLOCK_N])
    row = tl.program_id(0) * BLOCK_M
    col = tl.program_id(1) * BLOCK_N
    x = x_desc.load([row, col]).to(tl.float32)
    dy = dy_desc.load([row, col]).to(tl.float32)
    dx_desc.store([row, col], tl.where(x <= 0, 0.0, 2.0 * x * dy).to(dx_ptr.dtype.element_ty))


class ReluSquared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n_rows, n_cols = x.shape
        ctx.save_for_backward(x)
        if n_cols * x.element_size() % 16 == 0:  # rows of a descriptor begin at multiples of 16 bytes
            triton.set_allocator(alloc_fn)
            _tiles[(triton.cdiv(n_rows, 8), triton.cdiv(n_cols, 64))](x, y, n_rows, n_cols, 8, 64)
        else:
            _flat[(triton.cdiv(x.numel(), 512),)](x, y, x.numel(), BLOCK=512)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        dy = dy.contiguous()
        n_rows, n_cols = x.shape
        if n_cols * x.element_size() % 16 == 0:
            _grad_tiles[(triton.cdiv(n_rows, 8), triton.cdiv(n_cols, 64))](dy, x, dx, n_rows, n_cols, 8, 64)
        else:
            _grad[(triton.cdiv(x.numel(), 512),)](dy, x, dx, x.numel(), BLOCK=512)
        return dx


def candidate(x: torch.Tensor) -> torch.Tensor:
    return ReluSquared.apply(x)
