"""A reshape that may reorder, of rows that lie one after the other."""

import torch
import triton
import triton.language as tl


@triton.jit
def _sum(x_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    lanes = tl.arange(0, 4 * BLOCK)
    rows = tl.program_id(0).to(tl.int64) * 4 + lanes // BLOCK
    cols = lanes % BLOCK
    x = tl.load(x_ptr + rows * n_cols + cols, mask=(rows < n_rows) & (cols < n_cols), other=0.0).to(tl.float32)
    x = tl.reshape(x, (4, BLOCK), can_reorder=True)
    at = tl.program_id(0).to(tl.int64) * 4 + tl.arange(0, 4)
    tl.store(y_ptr + at, tl.sum(x, axis=1), mask=at < n_rows)


def candidate(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    _sum[(triton.cdiv(x.shape[0], 4),)](x, y, x.shape[0], x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
