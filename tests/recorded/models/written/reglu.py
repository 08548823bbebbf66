"""ReGLU on liger's layout: the problem from words, and its kernel; written by hand, as all answers here."""

from __future__ import annotations

from typing import Any

WORDS = """\
ReGLU, the gated linear unit with ReLU on the gate: relu(a) * b, with gradients of both. As swiglu and geglu of this
library take it, for the MLPs of Llama-sized models.
"""
PROBLEM = '''\
"""ReGLU: a gated linear unit with ReLU on the gate."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.relu(a) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [
    {"T": 8192, "I": 14336},
    {"T": 4096, "I": 14336},
    {"T": 4096, "I": 11008},
    {"T": 1024, "I": 8192},
]
'''
ASSUMPTIONS = [
    "The gate `a` and the value `b` are two tensors of one shape, as the library's swiglu and geglu take them; the "
    "projections before and after are not part of the kernel.",
    "The gradient of ReLU at zero is zero, as in PyTorch.",
    "Both inputs get gradients.",
    "In half precision the result is rounded once, after the product; ReLU itself is exact in every dtype.",
    "The sizes are the intermediate sizes of Llama 2 and 3 at 1024 to 8192 tokens.",
]
KERNEL = '''\
import torch
import triton
import triton.language as tl

from liger_kernel.ops.utils import calculate_settings
from liger_kernel.ops.utils import device_context
from liger_kernel.ops.utils import ensure_contiguous

MAX_BLOCK = 4096


@triton.jit
def _reglu_forward_kernel(a_ptr, b_ptr, c_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    """
    c = max(a, 0) * b

    a, b, c: contiguous, taken as one long row of n_elements. A NaN in a stays a NaN, as in torch.relu.
    """
    offsets = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    a = tl.load(a_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    gate = tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(c_ptr + offsets, gate * b, mask=mask)


@triton.jit
def _reglu_backward_kernel(dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    """
    da = where(a > 0, dc * b, 0)
    db = dc * max(a, 0)
    """
    offsets = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    dc = tl.load(dc_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    a = tl.load(a_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    gate = tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(da_ptr + offsets, tl.where(a > 0, dc * b, 0.0), mask=mask)
    tl.store(db_ptr + offsets, dc * gate, mask=mask)


def reglu_forward(a, b):
    n_elements = a.numel()
    BLOCK_SIZE, num_warps = calculate_settings(min(n_elements, MAX_BLOCK))
    c = torch.empty_like(a)
    with device_context(a.device):
        _reglu_forward_kernel[(triton.cdiv(n_elements, BLOCK_SIZE),)](
            a, b, c, n_elements, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps
        )
    return c


def reglu_backward(dc, a, b):
    n_elements = dc.numel()
    BLOCK_SIZE, num_warps = calculate_settings(min(n_elements, MAX_BLOCK))
    da = torch.empty_like(a)
    db = torch.empty_like(b)
    with device_context(dc.device):
        _reglu_backward_kernel[(triton.cdiv(n_elements, BLOCK_SIZE),)](
            dc, a, b, da, db, n_elements, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps
        )
    return da, db


class LigerReGLUFunction(torch.autograd.Function):
    """Gates b with the positive part of a."""

    @staticmethod
    @ensure_contiguous
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return reglu_forward(a, b)

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        return reglu_backward(dc, a, b)
'''
PLAN: dict[str, Any] = {
    "family": "element-wise, gated",
    "tier": 1,
    "kernels": [
        {
            "name": "_reglu_forward_kernel",
            "pass": "forward",
            "iteration_space": "all T * I elements as one row",
            "grid": "ceil(T * I / BLOCK_SIZE) programs",
        },
        {
            "name": "_reglu_backward_kernel",
            "pass": "backward",
            "iteration_space": "all T * I elements as one row",
            "grid": "ceil(T * I / BLOCK_SIZE) programs",
        },
    ],
    "forward_formula": "c = max(a, 0) * b",
    "gradient_formulas": [
        {"input": "a", "formula": "da = where(a > 0, dc * b, 0)"},
        {"input": "b", "formula": "db = dc * max(a, 0)"},
    ],
    "saved_tensors": ["a", "b"],
    "recomputed": "the gate max(a, 0), which costs one comparison",
    "precision_sensitive_ops": [],
    "grid_dimensions": "1D",
    "grid_description": "blocks of up to 4096 elements over the flattened tensor, so that short and wide rows are alike",
    "block_size_source": "calculate_settings of at most 4096",
    "needs_sm_parallelism": False,
    "forward_bytes": "3 * T * I * E",
    "backward_bytes": "5 * T * I * E",
    "forward_flops": "2 * T * I",
    "backward_flops": "3 * T * I",
    "notes": [
        "Bound by memory at every size; nothing is read twice within a pass.",
        "Offsets are 64 bits wide: T * I passes 2**31 for long sequences.",
    ],
}
