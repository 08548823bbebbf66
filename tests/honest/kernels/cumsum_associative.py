"""Cumulative sums in one block by tl.associative_scan with an own combine function."""

import torch
import triton
import triton.language as tl


@triton.jit
def _plus(a, b):
    return a + b


@triton.jit
def _scan(x_ptr, y_ptr, stride, n_cols, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    y = tl.associative_scan(x, 0, _plus, reverse=REVERSE)
    tl.store(y_ptr + row * n_cols + cols, y, mask=cols < n_cols)


class CumSum(torch.autograd.Function):
    @staticmethod
    def run(x: torch.Tensor, reverse: bool) -> torch.Tensor:
        x = x if x.stride(-1) == 1 else x.contiguous()
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        n_rows, n_cols = x.shape
        _scan[(n_rows,)](x, y, x.stride(0), n_cols, REVERSE=reverse, BLOCK=triton.next_power_of_2(n_cols))
        return y

    @staticmethod
    def forward(ctx, x):
        return CumSum.run(x, reverse=False)

    @staticmethod
    def backward(ctx, dy):
        return CumSum.run(dy, reverse=True)


def candidate(x: torch.Tensor) -> torch.Tensor:
    return CumSum.apply(x)
