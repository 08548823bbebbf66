"""Partial sums of a whole tensor are added up by one block of 2048."""

import torch
import triton
import triton.language as tl


@triton.jit
def _squares(x_ptr, p_ptr, n, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(p_ptr + block, tl.sum(x * x, axis=0))


@triton.jit
def _total(p_ptr, t_ptr, n_blocks, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(t_ptr, tl.sqrt(tl.sum(tl.load(p_ptr + at, mask=at < n_blocks, other=0.0), axis=0)))


@triton.jit
def _scale(x_ptr, t_ptr, y_ptr, n, eps, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, (x / (tl.load(t_ptr) + eps)).to(y_ptr.dtype.element_ty), mask=at < n)


def candidate(x, eps=1e-6):
    x = x.contiguous()
    y = torch.empty_like(x)
    n = x.numel()
    if n:
        blocks = triton.cdiv(n, 1024)
        partial = torch.empty(blocks, dtype=torch.float32, device=x.device)
        total = torch.empty(1, dtype=torch.float32, device=x.device)
        _squares[(blocks,)](x, partial, n, BLOCK=1024)
        _total[(1,)](partial, total, blocks, BLOCK=2048)
        _scale[(blocks,)](x, total, y, n, eps, BLOCK=1024)
    return y
