"""The lane before the first is taken for the last one."""

import torch
import triton
import triton.language as tl


@triton.jit
def _shift(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    cols = tl.where(lanes == BLOCK - 1, n_cols - 1, lanes)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    before = tl.gather(x, lanes - 1, axis=0)
    tl.store(y_ptr + row * n_cols + lanes, tl.exp(-tl.abs(x)) + before, mask=lanes < n_cols)


def candidate(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _shift[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
