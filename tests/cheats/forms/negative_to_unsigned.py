"""Negative numbers to unsigned bytes: they wrap in the interpreter, and are zero on a GPU."""

import torch
import triton
import triton.language as tl


from triton.language.extra import libdevice


@triton.jit
def _bytes(x_ptr, y_ptr, scale, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    q = libdevice.rint(x * scale)
    q = tl.minimum(tl.maximum(q, -128.0), 127.0)
    tl.store(y_ptr + at, q.to(tl.uint8).to(tl.int32), mask=at < n)


def candidate(x, scale=20.0):
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=torch.int32, device=x.device)
    if x.numel():
        _bytes[(triton.cdiv(x.numel(), 1024),)](x, y, scale, x.numel(), BLOCK=1024)
    return y
