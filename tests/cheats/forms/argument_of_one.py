"""`.to` of an argument, which is a plain constant where it is one."""

import torch
import triton
import triton.language as tl


@triton.jit
def _mean(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * stride.to(tl.int64) + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    tl.store(y_ptr + row, tl.sum(total, axis=0) / n_cols)


def candidate(x):
    x = x.contiguous()
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    if x.shape[0]:
        _mean[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=1024)
    return y
