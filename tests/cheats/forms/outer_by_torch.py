"""Torch computes the whole bias, of inputs that are small; the kernel adds it."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, bias_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * n_cols + cols, x + tl.load(bias_ptr + row * n_cols + cols, mask=mask, other=0.0), mask=mask)


def candidate(x: torch.Tensor, slope: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    x = x if x.stride(1) == 1 else x.contiguous()
    n_rows, n_cols = x.shape
    product = slope[:, None] * place[None, :]
    bias = (product * product + 1.0).sqrt()
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    _add[(n_rows,)](x, bias, y, x.stride(0), n_cols, BLOCK=1024)
    return y
