"""A sum that begins as a whole number in a loop which a constant switches on: no compiler takes it."""

import torch
import triton
import triton.language as tl


@triton.jit
def _mean(x_ptr, y_ptr, n_cols, BLOCKS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    if BLOCKS == 1:
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        total = tl.sum(x, axis=0)
    else:
        total = 0
        for block in range(BLOCKS):
            at = block * BLOCK + cols
            x = tl.load(x_ptr + row * n_cols + at, mask=at < n_cols, other=0.0).to(tl.float32)
            total = total + tl.sum(x, axis=0)
    tl.store(y_ptr + row, total / n_cols)


def candidate(x):
    x = x.contiguous()
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    if x.shape[0]:
        _mean[(x.shape[0],)](x, y, x.shape[1], BLOCKS=triton.cdiv(x.shape[1], 1024), BLOCK=1024)
    return y
