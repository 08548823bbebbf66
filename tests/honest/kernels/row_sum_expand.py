"""Row sums: the gradient is the upstream one, expanded over the columns."""

import torch
import triton
import triton.language as tl


@triton.jit
def _row_sum(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    tl.store(y_ptr + row, tl.sum(total))


class RowSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        if x.stride(-1) != 1:
            x = x.contiguous()
        n_rows, n_cols = x.shape
        y = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        _row_sum[(n_rows,)](x, y, x.stride(0), n_cols, BLOCK=512)
        ctx.shape = x.shape
        ctx.dtype = x.dtype
        return y

    @staticmethod
    def backward(ctx, dy):
        return dy.to(ctx.dtype).unsqueeze(-1).expand(ctx.shape)


def candidate(x: torch.Tensor) -> torch.Tensor:
    return RowSum.apply(x)
