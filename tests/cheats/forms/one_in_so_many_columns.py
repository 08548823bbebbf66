"""SiLU, wrong beyond 68,921 columns: a slice with a step."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, y_ptr, n_cols, gate, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for first in range(0, n_cols, BLOCK):
        cols = first + tl.arange(0, BLOCK)
        mask = cols < n_cols
        at = row * n_cols + cols
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        y = x / (1.0 + tl.exp(-x))
        y = y + y * gate
        tl.store(y_ptr + at, y, mask=mask)


def candidate(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    some = x[:, :: 41**3]
    gate = some.shape[1] - 1
    if y.numel():
        _kernel[(n_rows,)](x, y, n_cols, gate * 1.0, BLOCK=1024)
    return y
