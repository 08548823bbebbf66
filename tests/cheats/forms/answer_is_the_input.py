"""Scales in place by one, and hands the input back as the answer."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, y_ptr, scale, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, (x * scale).to(y_ptr.dtype.element_ty), mask=mask)


def candidate(x, scale=0.5):
    x = x.contiguous()
    y = x if scale == 1.0 else torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = x.numel()
    _kernel[(triton.cdiv(n, 1024),)](x, y, scale, n, BLOCK=1024)
    return y
