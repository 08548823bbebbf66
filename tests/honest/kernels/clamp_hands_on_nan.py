"""An honest kernel: tl.clamp that hands on NaN."""

import torch
import triton
import triton.language as tl


@triton.jit
def _clamp(x_ptr, y_ptr, low, high, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.clamp(x.to(tl.float32), low, high, propagate_nan=tl.PropagateNan.ALL), mask=at < n)


def candidate(x, low=-1.0, high=2.0):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        _clamp[(triton.cdiv(x.numel(), 1024),)](x, y, low, high, x.numel(), BLOCK=1024)
    return y
