"""A kernel that begins before the one ahead of it has ended reads what that one writes, and does not wait."""

import torch
import triton
import triton.language as tl


@triton.jit
def _squares(x_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(partial_ptr + tl.program_id(0), tl.sum(x * x, axis=0))


@triton.jit
def _root(partial_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(partial_ptr + at, mask=at < n, other=0.0), axis=0)
    tl.store(y_ptr, tl.sqrt(total))


def candidate(x):
    x = x.contiguous()
    n = x.numel()
    programs = triton.cdiv(n, 4096)
    partial = torch.empty(programs, dtype=torch.float32, device=x.device)
    y = torch.empty((), dtype=torch.float32, device=x.device)
    _squares[(programs,)](x, partial, n, BLOCK=4096)
    _root[(1,)](partial, y, programs, BLOCK=8192, launch_pdl=True)
    return y
