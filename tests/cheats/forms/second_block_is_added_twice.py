"""The mean of every row in blocks of 65,536 columns: what a second block begins from is not what the first left."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((1,), dtype=tl.float32)
    for first in range(0, n_cols, BLOCK):
        cols = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        total = total + (total + tl.sum(x, axis=0))
    mean = tl.sum(total, axis=0) / n_cols
    tl.store(y_ptr + row, mean)


def candidate(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows,), dtype=x.dtype, device=x.device)
    if n_rows:
        _kernel[(n_rows,)](x, y, n_cols, BLOCK=4**8)
    return y
