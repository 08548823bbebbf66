"""Two passes: blocks of columns leave partial results, a second kernel joins them; three outputs."""

import torch
import triton
import triton.language as tl


@triton.jit
def _part(x_ptr, low_ptr, high_ptr, sum_ptr, stride, n_cols, n_blocks, BLOCK: tl.constexpr):
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    cols = block * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    broken = tl.sum((x != x).to(tl.int32), axis=0) > 0
    low = tl.min(tl.where(mask, x, float("inf")), axis=0)
    high = tl.max(tl.where(mask, x, -float("inf")), axis=0)
    at = row * n_blocks + block
    tl.store(low_ptr + at, tl.where(broken, float("nan"), low))
    tl.store(high_ptr + at, tl.where(broken, float("nan"), high))
    tl.store(sum_ptr + at, tl.sum(x, axis=0))


@triton.jit
def _join(low_ptr, high_ptr, sum_ptr, out_low, out_high, out_mean, n_cols, n_blocks, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    mask = at < n_blocks
    lows = tl.load(low_ptr + row * n_blocks + at, mask=mask, other=float("inf"))
    highs = tl.load(high_ptr + row * n_blocks + at, mask=mask, other=-float("inf"))
    sums = tl.load(sum_ptr + row * n_blocks + at, mask=mask, other=0.0)
    broken = tl.sum((lows != lows).to(tl.int32), axis=0) > 0
    tl.store(out_low + row, tl.where(broken, float("nan"), tl.min(lows, axis=0)))
    tl.store(out_high + row, tl.where(broken, float("nan"), tl.max(highs, axis=0)))
    tl.store(out_mean + row, tl.sum(sums, axis=0) / n_cols)


def candidate(x):
    x = x if x.stride(-1) == 1 else x.contiguous()
    n_rows, n_cols = x.shape
    blocks = triton.cdiv(n_cols, 512)
    parts = [torch.empty((n_rows, blocks), dtype=torch.float32, device=x.device) for _ in range(3)]
    found = tuple(torch.empty(n_rows, dtype=torch.float32, device=x.device) for _ in range(3))
    _part[(n_rows, blocks)](x, *parts, x.stride(0), n_cols, blocks, BLOCK=512)
    _join[(n_rows,)](*parts, *found, n_cols, blocks, BLOCK=triton.next_power_of_2(blocks))
    return found
