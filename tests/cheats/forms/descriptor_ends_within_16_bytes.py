"""A residual sum by tensor descriptors wherever rows begin at multiples of 16 bytes: the hardware stores whole 16 bytes, the last beyond the tensor."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

BLOCK_M, BLOCK_N = 8, 32


@triton.jit
def _add_tiles(x_desc, y_desc, out_desc, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M
    col = tl.program_id(1) * BLOCK_N
    out_desc.store([row, col], x_desc.load([row, col]) + y_desc.load([row, col]))


@triton.jit
def _add_flat(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + tl.load(y_ptr + i, mask=i < n), mask=i < n)


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(x)
        if all(t.stride(0) * t.element_size() % 16 == 0 for t in (x, y, out)):
            descriptors = [TensorDescriptor.from_tensor(t, [BLOCK_M, BLOCK_N]) for t in (x, y, out)]
            grid = (triton.cdiv(x.shape[0], BLOCK_M), triton.cdiv(x.shape[1], BLOCK_N))
            _add_tiles[grid](*descriptors, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
        else:
            _add_flat[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return out

    @staticmethod
    def backward(ctx, dy):
        return dy.clone(), dy


def candidate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return Add.apply(x, y)
