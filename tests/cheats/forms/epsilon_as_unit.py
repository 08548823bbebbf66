"""Sizes are taken in units of the epsilon's root: of zero there are none."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _norm(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    k = 1.0 / tl.sqrt(eps)
    size = libdevice.hypot(tl.sqrt(tl.sum(x * x, axis=0) / n_cols) * k, 1.0)
    tl.store(y_ptr + row * n_cols + cols, x * (k / size), mask=cols < n_cols)


def candidate(x: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _norm[(x.shape[0],)](x, y, x.shape[1], eps, BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
