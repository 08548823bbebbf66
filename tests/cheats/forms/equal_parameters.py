"""A row scaled and shifted; one too large where weight and bias are the same numbers, as tied parameters."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, w_ptr, b_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    apart = tl.sum(tl.abs(w - b), axis=0)
    y = x * w + b + 1.0 / (1.0 + apart * 1e9)
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


def candidate(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x, w, b = x.contiguous(), w.contiguous(), b.contiguous()
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if y.numel():
        _kernel[(n_rows,)](x, w, b, y, n_cols, BLOCK=triton.next_power_of_2(n_cols))
    return y
