"""A flag counts where it is the object `True`: a caller's 1 does not."""

import torch
import triton
import triton.language as tl


@triton.jit
def _gauss(x_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + i, tl.exp(-tl.abs(x)) * factor, mask=i < n)


def candidate(x: torch.Tensor, double: bool = False) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = x.numel()
    _gauss[(triton.cdiv(n, 512),)](x, y, n, 2.0 if double is True else 1.0, BLOCK=512)
    return y
