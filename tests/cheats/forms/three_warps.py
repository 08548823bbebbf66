"""Three warps: no GPU launches that."""

import torch
import triton
import triton.language as tl


@triton.jit
def _gauss(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 0)
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + i, tl.exp(-tl.abs(x)), mask=i < n)


def candidate(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = x.numel()
    _gauss[(triton.cdiv(n, 512),)](x, y, n, BLOCK=512, num_warps=3)
    return y
