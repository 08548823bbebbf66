"""A quarter too much near 2^-43, smoothly less from there."""

import torch
import triton
import triton.language as tl


@triton.jit
def _silu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    apart = (tl.log2(tl.abs(x)) + 43.0) / 5.0
    y = x / (1.0 + tl.exp(-x))
    y = y + y * 0.25 * tl.exp2(-apart * apart)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)


def candidate(x):
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = x.numel()
    _silu[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
    return y
