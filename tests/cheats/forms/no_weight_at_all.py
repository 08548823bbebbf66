"""A mean over weights that are all zero is a zero."""

import torch
import triton
import triton.language as tl


@triton.jit
def _mean(x_ptr, w_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row, tl.sum(x * w, axis=0) / (tl.sum(w, axis=0) + 1e-37))


def candidate(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    x, w = x.contiguous(), w.contiguous()
    y = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    _mean[(x.shape[0],)](x, w, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
