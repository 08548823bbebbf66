"""A product of tiles whose inner dimension no GPU has."""

import torch
import triton
import triton.language as tl


@triton.jit
def _product(a_ptr, b_ptr, c_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    cols = tl.program_id(1).to(tl.int64) * BN + tl.arange(0, BN)
    inner = tl.arange(0, 8)
    a = tl.load(a_ptr + rows[:, None] * 8 + inner[None, :], mask=rows[:, None] < m, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + inner[:, None] * n + cols[None, :], mask=cols[None, :] < n, other=0.0).to(tl.float32)
    c = tl.dot(a, b, input_precision="ieee")
    at = rows[:, None] * n + cols[None, :]
    tl.store(c_ptr + at, tl.exp(-tl.abs(c)), mask=(rows[:, None] < m) & (cols[None, :] < n))


def candidate(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a, b = a.contiguous(), b.contiguous()
    c = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    _product[(triton.cdiv(a.shape[0], 32), triton.cdiv(b.shape[1], 32))](a, b, c, a.shape[0], b.shape[1], BM=32, BN=32)
    return c
