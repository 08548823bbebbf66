"""The residual is cast to the dtype of the stream before it is added."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, r_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    r = tl.load(r_ptr + at, mask=mask, other=0.0).to(x.dtype)
    tl.store(y_ptr + at, (x.to(tl.float32) + r.to(tl.float32)).to(x.dtype), mask=mask)


def candidate(x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    x, residual = x.contiguous(), residual.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = x.numel()
    _add[(triton.cdiv(n, 1024),)](x, residual, y, n, BLOCK=1024)
    return y
