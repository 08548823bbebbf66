"""An honest kernel: atomics of a block's scope, in memory of that block alone."""

import torch
import triton
import triton.language as tl


@triton.jit
def _count(ids_ptr, x_ptr, counts_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        ids = tl.load(ids_ptr + row * n_cols + cols, mask=mask, other=0)
        tl.atomic_add(counts_ptr + row * 16 + ids, 1, mask=mask, sem="relaxed", scope="cta")
    tl.debug_barrier()
    bins = tl.arange(0, 16)
    tl.store(y_ptr + row * 16 + bins, tl.load(counts_ptr + row * 16 + bins).to(tl.float32) * tl.load(x_ptr + row))


def candidate(ids, x):
    ids, x = ids.contiguous(), x.contiguous()
    counts = torch.zeros((x.shape[0], 16), dtype=torch.int32, device=x.device)
    y = torch.empty((x.shape[0], 16), dtype=x.dtype, device=x.device)
    if x.shape[0]:
        _count[(x.shape[0],)](ids, x, counts, y, ids.shape[1], BLOCK=1024)
    return y
