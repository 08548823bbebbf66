"""Shares of exactly zero and one give infinities, where the reference bounds the logarithm."""

import torch
import triton
import triton.language as tl


@triton.jit
def _bce(p_ptr, t_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    p = tl.load(p_ptr + i, mask=i < n, other=0.5).to(tl.float32)
    t = tl.load(t_ptr + i, mask=i < n, other=0.5).to(tl.float32)
    tl.store(y_ptr + i, -(t * tl.log(p) + (1.0 - t) * tl.log(1.0 - p)), mask=i < n)


def candidate(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    p, t = p.contiguous(), t.contiguous()
    y = torch.empty(p.shape, dtype=torch.float32, device=p.device)
    if p.numel():
        _bce[(triton.cdiv(p.numel(), 1024),)](p, t, y, p.numel(), BLOCK=1024)
    return y
