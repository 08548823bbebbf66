"""Two outputs lie in one memory: who changes one changes both."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, r_ptr, z_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    r = tl.load(r_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(z_ptr + i, tl.exp(-tl.abs(x + r)), mask=i < n)


def candidate(x: torch.Tensor, r: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x, r = x.contiguous(), r.contiguous()
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _add[(triton.cdiv(x.numel(), 512),)](x, r, z, x.numel(), BLOCK=512)
    return z, z.view(z.shape)
