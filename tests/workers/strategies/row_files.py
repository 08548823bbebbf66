"""Kernel files of one row a program, as several libraries write them, and how they are run in Triton's interpreter."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROW_NORM = '''import torch
import triton
import triton.language as tl


@triton.jit
def gate(x):
    """Let the larger part through."""
    return x * tl.sigmoid(x)


@triton.jit
def _norm_forward_kernel(
    Y_ptr,
    Y_row_stride,
    X_ptr,
    X_row_stride,
    W_ptr,
    RSTD_ptr,
    n_cols,
    eps,
    affine: tl.constexpr,  # known when it is compiled
    BLOCK_SIZE: tl.constexpr,
):
    """Norm a row."""
    row_idx = tl.program_id(0).to(tl.int64)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols

    y_base = Y_ptr + row_idx * Y_row_stride
    x_row = tl.load(X_ptr + row_idx * X_row_stride + col_offsets, mask=mask, other=0.0).to(tl.float32)
    # Weights are the same for every row.
    if affine:
        w_row = tl.load(W_ptr + col_offsets, mask=mask, other=0.0)

    rstd = 1.0 / tl.sqrt(tl.sum(x_row * x_row, axis=0) / n_cols + eps)
    tl.store(RSTD_ptr + row_idx, rstd)
    y_row = x_row * rstd
    if affine:
        y_row = y_row * w_row
    tl.store(y_base + col_offsets, gate(y_row), mask=mask)


@triton.jit
def _double_backward_kernel(dy, y, stride, n_cols, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    dy += pid * stride
    y += pid * stride
    cols = tl.arange(0, BLOCK)
    g = tl.load(dy + cols, mask=cols < n_cols, other=0.0)
    v = tl.load(y + cols, mask=cols < n_cols, other=0.0)
    total = tl.sum(g * v)
    tl.store(
        dy + cols,
        g * total,
        mask=cols < n_cols,
    )


def norm_forward(X, W, eps):
    n_rows, n_cols = X.shape
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    Y = torch.empty_like(X)
    RSTD = torch.empty(n_rows, dtype=torch.float32, device=X.device)
    grid = (n_rows,)
    _norm_forward_kernel[grid](
        Y,
        Y.stride(0),
        X,
        X.stride(0),
        W,
        RSTD,
        n_cols,
        eps,
        affine=W is not None,
        BLOCK_SIZE=BLOCK_SIZE,
    )
    return Y, RSTD


def double_backward(dY, Y):
    n_cols = Y.shape[-1]
    dY = dY.view(-1, n_cols)
    BLOCK = triton.next_power_of_2(n_cols)
    if n_cols > 0:
        _double_backward_kernel[(Y.shape[0],)](dY, Y, Y.stride(0), n_cols, BLOCK=BLOCK, num_warps=4)
    return dY


class NormFunction(torch.autograd.Function):
    """Norm every row and let a gate decide."""

    @staticmethod
    def forward(ctx, X, W, eps=1e-6):
        """Norm."""
        Y, RSTD = norm_forward(X, W, eps)
        ctx.save_for_backward(Y)
        ctx.rstd = RSTD
        return Y

    @staticmethod
    def backward(ctx, dY):
        (Y,) = ctx.saved_tensors
        return double_backward(dY.clone(), Y), None, None
'''


def loaded(folder: Path, source: str, name: str) -> ModuleType:
    """A module of a source; Triton reads kernels from their file."""
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
