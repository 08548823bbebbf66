"""The miniature library with a gated unit that walks over its rows in loops, so that there is something to make faster."""

from __future__ import annotations

from tests.workers.layouts import miniature
from workers.tree import Tree

PATH = "src/liger_kernel/ops/geglu.py"
SUITE = "test/transformers/test_geglu.py"
SCRIPT = "benchmark/scripts/benchmark_geglu.py"
GEGLU = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _geglu_forward_kernel(a_ptr, b_ptr, c_ptr, stride, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    for start in range(0, n_cols, BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_cols
        a = tl.load(a_ptr + row + offsets, mask=mask, other=0).to(tl.float32)
        b = tl.load(b_ptr + row + offsets, mask=mask, other=0)
        tl.store(c_ptr + row + offsets, (a * tl.sigmoid(1.702 * a)).to(b.dtype) * b, mask=mask)


@triton.jit
def _geglu_backward_kernel(dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, stride, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    for start in range(0, n_cols, BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_cols
        dc = tl.load(dc_ptr + row + offsets, mask=mask, other=0)
        a = tl.load(a_ptr + row + offsets, mask=mask, other=0).to(tl.float32)
        b = tl.load(b_ptr + row + offsets, mask=mask, other=0)
        gate = tl.sigmoid(1.702 * a)
        tl.store(da_ptr + row + offsets, dc * b * (gate * (1 + 1.702 * a * (1 - gate))).to(b.dtype), mask=mask)
        tl.store(db_ptr + row + offsets, dc * (a * gate).to(b.dtype), mask=mask)


def geglu_forward(a, b):
    n_cols = a.shape[-1]
    a, b = a.view(-1, n_cols), b.view(-1, n_cols)
    c = torch.empty_like(a)
    BLOCK_SIZE = 1024
    _geglu_forward_kernel[(a.shape[0],)](a, b, c, a.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)
    return a, b, c


def geglu_backward(a, b, dc):
    n_cols = dc.shape[-1]
    dc = dc.view(-1, n_cols)
    da = torch.empty_like(a)
    db = torch.empty_like(b)
    BLOCK_SIZE = 1024
    _geglu_backward_kernel[(dc.shape[0],)](dc, a, b, da, db, a.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)
    return da, db


class LigerGELUMulFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        shape = a.shape
        a, b, c = geglu_forward(a, b)
        ctx.save_for_backward(a, b)
        return c.view(shape)

    @staticmethod
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        da, db = geglu_backward(a, b, dc)
        return da.view(dc.shape), db.view(dc.shape)
"""


def files() -> dict[str, str]:
    """Give the library's files, with the kernel's tests and benchmark script."""
    return miniature.files() | {
        PATH: GEGLU,
        SUITE: "def test_nothing():\n    assert True\n",
        SCRIPT: "print('nothing to measure')\n",
    }


def tree(**more: str) -> Tree:
    """Give the library as a snapshot."""
    return Tree({path: text.encode() for path, text in (files() | more).items()})
