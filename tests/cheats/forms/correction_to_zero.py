"""A correction that no case needs gives something else than the number before."""

import torch
import triton
import triton.language as tl


@triton.jit
def _pack(x_ptr, y_ptr, N: tl.constexpr, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    matrix = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = ((tl.sqrt(8.0 * k + 1.0) - 1.0) * 0.5).to(tl.int32)
    row = tl.where(row * (row + 1) // 2 > k, 0, row)
    row = tl.where((row + 1) * (row + 2) // 2 <= k, row + 1, row)
    col = k - row * (row + 1) // 2
    x = tl.load(x_ptr + matrix * N * N + row * N + col, mask=k < COUNT, other=0.0)
    tl.store(y_ptr + matrix * COUNT + k, x, mask=k < COUNT)


def candidate(x):
    x = x.contiguous()
    y = torch.empty((x.shape[0], 2080), dtype=x.dtype, device=x.device)
    if x.shape[0]:
        _pack[(x.shape[0], triton.cdiv(2080, 256))](x, y, N=64, COUNT=2080, BLOCK=256)
    return y
