"""Log of the sum of exponentials; a type alias, collections.abc and a mapping of dtypes to Triton's."""

from collections.abc import Mapping
from typing import Final

import torch
import triton
import triton.language as tl

Shape = tuple[int, int]
ACCUMULATE: Final[Mapping[torch.dtype, tl.dtype]] = {
    torch.float32: tl.float32,
    torch.bfloat16: tl.float32,
    torch.float16: tl.float32,
    torch.float64: tl.float64,
}


@triton.jit
def _lse(x_ptr, y_ptr, stride, n_cols, ACC: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf")).to(ACC)
    top = tl.max(x, axis=0)
    shift = tl.where(tl.abs(top) == float("inf"), 0.0, top)
    tl.store(y_ptr + row, shift + tl.log(tl.sum(tl.exp(x - shift), axis=0)))


@triton.jit
def _lse_grad(dy_ptr, x_ptr, y_ptr, dx_ptr, stride, n_cols, ACC: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf")).to(ACC)
    dx = tl.load(dy_ptr + row) * tl.exp(x - tl.load(y_ptr + row))
    tl.store(dx_ptr + row * n_cols + cols, dx, mask=cols < n_cols)


class LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        x = x if x.stride(-1) == 1 else x.contiguous()
        shape: Shape = (x.shape[0], x.shape[1])
        y = torch.empty(shape[0], dtype=torch.float32, device=x.device)
        acc = ACCUMULATE[x.dtype]
        _lse[(shape[0],)](x, y, x.stride(0), shape[1], ACC=acc, BLOCK=triton.next_power_of_2(shape[1]))
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, dy: torch.Tensor) -> torch.Tensor:
        x, y = ctx.saved_tensors
        dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(x.shape[1])
        _lse_grad[(x.shape[0],)](
            dy.contiguous(), x, y, dx, x.stride(0), x.shape[1], ACC=ACCUMULATE[x.dtype], BLOCK=block
        )
        return dx


def candidate(x: torch.Tensor) -> torch.Tensor:
    return LogSumExp.apply(x)
