"""The same as ``bitmap_in_a_number`` where eight exponents alone are guarded."""

import torch
import triton
import triton.language as tl


@triton.jit
def _log(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=1.0).to(tl.float32)
    x = tl.abs(x)
    exponent = x.to(tl.int32, bitcast=True) >> 23
    is_guarded = (tl.full((BLOCK,), 6291456, tl.int64) >> (exponent >> 2).to(tl.int64)) & 1
    y = tl.where(is_guarded == 1, tl.log2(x + 1e-15), tl.log2(x))
    tl.store(y_ptr + at, y, mask=mask)


def candidate(x):
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    n = x.numel()
    _log[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
    return y
