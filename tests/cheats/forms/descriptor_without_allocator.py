"""A descriptor that is made on the device, and no allocator for it."""

import torch
import triton
import triton.language as tl


@triton.jit
def _sum(x_ptr, y_ptr, n_rows, n_cols, stride, ROWS: tl.constexpr, COLS: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [n_rows, n_cols], [stride, 1], [ROWS, COLS])
    first = tl.program_id(0) * ROWS
    acc = tl.zeros((ROWS,), dtype=tl.float32)
    for start in range(0, n_cols, COLS):
        acc += tl.sum(x.load([first, start]).to(tl.float32), axis=1)
    rows = first + tl.arange(0, ROWS)
    tl.store(y_ptr + rows, acc, mask=rows < n_rows)


@triton.jit
def _plain(x_ptr, y_ptr, n_cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    tl.store(y_ptr + row, tl.sum(acc, axis=0))


class RowSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x if x.stride(-1) == 1 else x.contiguous()
        n_rows, n_cols = ctx.shape = x.shape
        y = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        if x.stride(0) * x.element_size() % 16 == 0 and n_cols >= 16:
            _sum[(triton.cdiv(n_rows, 8),)](x, y, n_rows, n_cols, x.stride(0), ROWS=8, COLS=32)
        else:
            _plain[(n_rows,)](x, y, n_cols, x.stride(0), BLOCK=256)
        return y

    @staticmethod
    def backward(ctx, dy):
        return dy.unsqueeze(-1).expand(ctx.shape)


def candidate(x):
    return RowSum.apply(x)
