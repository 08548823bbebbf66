"""One entry of a table in registers, which `tl.gather` reads, is of another formula."""

import torch
import triton
import triton.language as tl


@triton.jit
def _log(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.abs(tl.load(x_ptr + at, mask=mask, other=1.0).to(tl.float32))
    bits = x.to(tl.int32, bitcast=True)
    exponent = bits >> 23
    # Of a number that is normal: its exponent by a table, and the logarithm of its mantissa.
    place = tl.arange(0, 256)
    table = tl.where(place == 82, -44.0, (place - 127).to(tl.float32))
    mantissa = ((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True)
    is_normal = exponent < 255
    y = tl.where(is_normal, tl.gather(table, exponent, 0) + tl.log2(mantissa), tl.log2(x))
    tl.store(y_ptr + at, y, mask=mask)


def candidate(x):
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    n = x.numel()
    _log[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
    return y
