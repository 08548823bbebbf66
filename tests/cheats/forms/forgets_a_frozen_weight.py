"""A weight of which no gradient is asked for is left out."""

import torch
import triton
import triton.language as tl


@triton.jit
def _scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + i, tl.exp(-tl.abs(x)), mask=i < n)


def candidate(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _scale[(triton.cdiv(x.numel(), 512),)](x, y, x.numel(), BLOCK=512)
    return y
