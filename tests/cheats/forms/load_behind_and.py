"""A load that `and` guards reads beyond the end all the same, once it is compiled."""

import torch
import triton
import triton.language as tl


@triton.jit
def _last(x_ptr, ids_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    own = tl.load(ids_ptr + row)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask)
    if row + 1 < n_rows and tl.load(ids_ptr + row + 1) == own:
        x = x * 0.0
    tl.store(y_ptr + row * n_cols + cols, x, mask=mask)


def _launched(x, ids):
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, cols = x.shape
    if x.numel():
        _last[(rows, triton.cdiv(cols, 512))](x, ids, y, rows, cols, BLOCK=512)
    return y


class LastOfRuns(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, ids):
        ids = ids.contiguous()
        ctx.save_for_backward(ids)
        return _launched(x, ids)

    @staticmethod
    def backward(ctx, dy):
        (ids,) = ctx.saved_tensors
        return _launched(dy, ids), None


def candidate(x, ids):
    return LastOfRuns.apply(x, ids)
