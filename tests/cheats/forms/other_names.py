"""Parameters have each other's names: called by name, it gives the difference with the other sign."""

import torch
import triton
import triton.language as tl


@triton.jit
def _subtract(x_ptr, r_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    r = tl.load(r_ptr + at, mask=mask, other=0.0)
    tl.store(y_ptr + at, (x.to(tl.float32) - r.to(tl.float32)).to(x.dtype), mask=mask)


def candidate(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    y, x = y.contiguous(), x.contiguous()
    z = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    n = y.numel()
    _subtract[(triton.cdiv(n, 1024),)](y, x, z, n, BLOCK=1024)
    return z
