"""A limit by a minimum that drops NaN: a row with one has the limit for its norm."""

import torch
import triton
import triton.language as tl


@triton.jit
def _norm(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        total += x * x
    norm = tl.sqrt(tl.sum(total, 0))
    y = tl.minimum(norm, 5.0)
    tl.store(y_ptr + row, y.to(y_ptr.dtype.element_ty))


def candidate(x):
    x = x.contiguous()
    rows, n = x.shape
    y = torch.empty((rows,), dtype=x.dtype, device=x.device)
    _norm[(rows,)](x, y, n, BLOCK=512)
    return y
