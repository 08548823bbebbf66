"""Squares of what the larger of two and one leave: those of tiny numbers vanish."""

import torch
import triton
import triton.language as tl


@triton.jit
def _hypot(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + at, mask=mask, other=0.0).to(tl.float32)
    most = 1.0 + tl.maximum(tl.abs(x), tl.abs(y))
    x = x / most
    y = y / most
    tl.store(z_ptr + at, tl.sqrt(x * x + y * y) * most, mask=mask)


def candidate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x, y = x.contiguous(), y.contiguous()
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = x.numel()
    _hypot[(triton.cdiv(n, 1024),)](x, y, z, n, BLOCK=1024)
    return z
