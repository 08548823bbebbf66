"""Takes the second block again in place of those after it."""

import torch
import triton
import triton.language as tl


@triton.jit
def _total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    total = tl.load(x_ptr + row * n + lanes, mask=lanes < n, other=0.0).to(tl.float32)
    for start in range(BLOCK, n, BLOCK):
        at = BLOCK + lanes
        total += tl.load(x_ptr + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + row, tl.sum(total, 0).to(y_ptr.dtype.element_ty))


def candidate(x):
    x = x.contiguous()
    rows, n = x.shape
    y = torch.empty((rows,), dtype=torch.float32, device=x.device)
    _total[(rows,)](x, y, n, BLOCK=min(triton.next_power_of_2(n), 16384))
    return y
