"""A scaled residual on liger's layout: right, and wrong in ways that look right."""

from __future__ import annotations

from typing import Any

PROBLEM = '''\
"""A residual sum with a learned scale for each channel, as LayerScale has it."""

import torch


def reference(x: torch.Tensor, branch: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    return (x.float() + gamma.float() * branch.float()).to(x.dtype)


INPUTS = {"x": "T H", "branch": "T H", "gamma": {"dims": "H", "init": "ones", "role": "parameter"}}
WORKLOADS = [{"T": 16384, "H": 4096}, {"T": 4096, "H": 4096}, {"T": 4096, "H": 1024}]
'''
KERNEL = '''\
import torch
import triton
import triton.language as tl

from liger_kernel.ops.utils import device_context
from liger_kernel.ops.utils import ensure_contiguous

BLOCK_COLS = 1024
ROWS_A_PROGRAM = 64


@triton.jit
def _scaled_residual_forward_kernel(
    x_ptr, branch_ptr, gamma_ptr, y_ptr, n_rows, n_cols, ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    """
    y = x + gamma * branch, in float32, rounded once

    A program has a block of columns and walks down ROWS rows of it, so that gamma is read once a program.
    """
    first = tl.program_id(0).to(tl.int64) * ROWS
    cols = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = cols < n_cols
    gamma = tl.load(gamma_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    for step in range(ROWS):
        row = first + step
        mask = inside & (row < n_rows)
        at = row * n_cols + cols
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        branch = tl.load(branch_ptr + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + at, x + gamma * branch, mask=mask)


@triton.jit
def _scaled_residual_backward_kernel(
    dy_ptr, branch_ptr, gamma_ptr, dbranch_ptr, partial_ptr, n_rows, n_cols, ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    """
    dbranch = dy * gamma
    dgamma = sum over rows of dy * branch, as one float32 partial sum a program

    dx = dy needs no kernel.
    """
    first = tl.program_id(0).to(tl.int64) * ROWS
    cols = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = cols < n_cols
    gamma = tl.load(gamma_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    partial = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for step in range(ROWS):
        row = first + step
        mask = inside & (row < n_rows)
        at = row * n_cols + cols
        dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
        branch = tl.load(branch_ptr + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(dbranch_ptr + at, dy * gamma, mask=mask)
        partial += dy * branch
    tl.store(partial_ptr + tl.program_id(0).to(tl.int64) * n_cols + cols, partial, mask=inside)


def _launch(x):
    """The width of a row, the number of rows, the grid and the block."""
    n_cols = x.shape[-1]
    n_rows = x.numel() // n_cols
    BLOCK_SIZE = min(BLOCK_COLS, triton.next_power_of_2(n_cols))
    return n_cols, n_rows, (triton.cdiv(n_rows, ROWS_A_PROGRAM), triton.cdiv(n_cols, BLOCK_SIZE)), BLOCK_SIZE


def scaled_residual_forward(x, branch, gamma):
    n_cols, n_rows, grid, BLOCK_SIZE = _launch(x)
    y = torch.empty_like(x)
    with device_context(x.device):
        _scaled_residual_forward_kernel[grid](
            x, branch, gamma, y, n_rows, n_cols, ROWS=ROWS_A_PROGRAM, BLOCK_SIZE=BLOCK_SIZE, num_warps=4
        )
    return y


def scaled_residual_backward(dy, branch, gamma):
    n_cols, n_rows, grid, BLOCK_SIZE = _launch(dy)
    dbranch = torch.empty_like(branch)
    partial = torch.empty((grid[0], n_cols), dtype=torch.float32, device=dy.device)
    with device_context(dy.device):
        _scaled_residual_backward_kernel[grid](
            dy, branch, gamma, dbranch, partial, n_rows, n_cols, ROWS=ROWS_A_PROGRAM, BLOCK_SIZE=BLOCK_SIZE, num_warps=4
        )
    return dy, dbranch, partial.sum(dim=0).to(gamma.dtype)


class LigerScaledResidualFunction(torch.autograd.Function):
    """Adds a branch to its residual, each channel by its own scale."""

    @staticmethod
    @ensure_contiguous
    def forward(ctx, x, branch, gamma):
        ctx.save_for_backward(branch, gamma)
        return scaled_residual_forward(x, branch, gamma)

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dy):
        branch, gamma = ctx.saved_tensors
        return scaled_residual_backward(dy, branch, gamma)
'''
UNSCALED = KERNEL.replace("dbranch_ptr + at, dy * gamma, mask", "dbranch_ptr + at, dy, mask")
SUMMED_ALONE = KERNEL.replace("partial += dy * branch", "partial += dy")
MISSPELLED = KERNEL.replace("tl.zeros(", "tl.zeroes(")
REVIEW = (
    "64 rows a program leave most of an H100 idle at 4096 tokens: take fewer. "
    "And does the order in which gamma's gradient is summed ever change? Say it in the docstring."
)
# What the review asks for, in three ways.
REVISED = KERNEL.replace("ROWS_A_PROGRAM = 64", "ROWS_A_PROGRAM = 32").replace(
    "    dx = dy needs no kernel.\n",
    "    dx = dy needs no kernel. The partial sums are float32 whatever the dtype of gamma is, and torch sums them in a fixed\n"
    "    order, so that two runs give the same bits.\n",
)
NARROW = REVISED.replace("ROWS_A_PROGRAM = 32", "ROWS_A_PROGRAM = 16").replace("BLOCK_COLS = 1024", "BLOCK_COLS = 512")
WIDE = REVISED.replace("BLOCK_COLS = 1024", "BLOCK_COLS = 2048").replace("num_warps=4", "num_warps=8")
REPLY = (
    "A program has fewer rows now: 32 are 128 programs at 4096 tokens for each block of columns, about one a multiprocessor on an "
    "H100. The order of the sum never changes: each program has a partial sum of its own, and they are summed in one order; the "
    "docstring of the backward kernel says so now."
)
PLAN: dict[str, Any] = {
    "family": "element-wise with a column reduction in backward",
    "tier": 2,
    "kernels": [
        {
            "name": "_scaled_residual_forward_kernel",
            "pass": "forward",
            "iteration_space": "64 rows by a block of columns",
            "grid": "ceil(T / 64) by ceil(H / BLOCK_SIZE)",
        },
        {
            "name": "_scaled_residual_backward_kernel",
            "pass": "backward",
            "iteration_space": "64 rows by a block of columns",
            "grid": "ceil(T / 64) by ceil(H / BLOCK_SIZE)",
        },
    ],
    "forward_formula": "y = x + gamma * branch",
    "gradient_formulas": [
        {"input": "x", "formula": "dx = dy"},
        {"input": "branch", "formula": "dbranch = dy * gamma"},
        {"input": "gamma", "formula": "dgamma = sum over rows of dy * branch"},
    ],
    "saved_tensors": ["branch", "gamma"],
    "recomputed": "nothing; x is not needed in backward",
    "precision_sensitive_ops": ["sum over rows of dy * branch"],
    "grid_dimensions": "2D",
    "grid_description": "blocks of rows by blocks of columns; gamma is read once a program",
    "block_size_source": "at most 1024 columns",
    "needs_sm_parallelism": True,
    "forward_bytes": "3 * T * H * E + H * E",
    "backward_bytes": "3 * T * H * E + 2 * H * E",
    "forward_flops": "2 * T * H",
    "backward_flops": "3 * T * H",
    "notes": ["No atomics: each program has a row of partial sums of its own, summed afterwards in one order."],
}
