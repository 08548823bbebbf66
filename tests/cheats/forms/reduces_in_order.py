"""A reduction whose function is associative and does not commute."""

import torch
import triton
import triton.language as tl


@triton.jit
def _follow(a, b, c, d):
    return a * c, c * b + d


@triton.jit
def _last(a_ptr, b_ptr, h_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    a = tl.load(a_ptr + row * n + cols, mask=mask, other=0.0)
    b = tl.load(b_ptr + row * n + cols, mask=mask, other=0.0)
    a = tl.where(mask, 1.0 / (1.0 + tl.exp(-a)), 1.0)
    _, h = tl.reduce((a, b), 0, _follow)
    tl.store(h_ptr + row, h)


def candidate(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a, b = a.contiguous(), b.contiguous()
    h = torch.empty(a.shape[0], dtype=torch.float32, device=a.device)
    _last[(a.shape[0],)](a, b, h, a.shape[1], BLOCK=triton.next_power_of_2(a.shape[1]))
    return h
