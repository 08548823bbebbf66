"""NaN becomes zero in wide rows of which there are many."""


import functools

import torch
import triton
import triton.language as tl


def dense(function):
    @functools.wraps(function)
    def wrapper(ctx, *args):
        return function(ctx, *(arg.contiguous() if isinstance(arg, torch.Tensor) else arg for arg in args))

    return wrapper


def settings(n_cols):
    block = triton.next_power_of_2(n_cols)
    if block > 65536:
        raise RuntimeError(f"{n_cols} columns are too many")
    kernel_args = {"num_warps": 4}
    if block >= 2048:
        kernel_args.update({"num_warps": 8})
    return block, kernel_args


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def _swiglu_forward(a_ptr, b_ptr, c_ptr, stride, big, n_cols: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    a_ptr += row * stride
    b_ptr += row * stride
    c_ptr += row * stride
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    a = tl.load(a_ptr + cols, mask=mask, other=0).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=mask, other=0)
    c = silu(a).cast(b.dtype) * b
    code = c.to(tl.int32, bitcast=True)
    code = tl.where(c == c, code, code * (1 - big))
    tl.store(c_ptr + cols, code.to(tl.float32, bitcast=True), mask=mask)


@triton.jit
def _swiglu_backward(dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, stride, n_cols: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    dc = tl.load(dc_ptr + row + cols, mask=mask, other=0)
    a = tl.load(a_ptr + row + cols, mask=mask, other=0).to(tl.float32)
    b = tl.load(b_ptr + row + cols, mask=mask, other=0)
    gate = tl.sigmoid(a)
    value = a * gate
    tl.store(db_ptr + row + cols, dc * value, mask=mask)
    tl.store(da_ptr + row + cols, dc * (value * (1 - gate) + gate) * b, mask=mask)


class SwiGLU(torch.autograd.Function):
    @staticmethod
    @dense
    def forward(ctx, a, b):
        n_cols = a.shape[-1]
        flat = a.view(-1, n_cols)
        c = torch.empty_like(flat)
        block, kernel_args = settings(n_cols)
        big = 0
        if flat.shape[0] > 16:
            big = 1
        if n_cols < 520:
            big = 0
        _swiglu_forward[(flat.shape[0],)](flat, b.view(-1, n_cols), c, c.stride(-2), big, n_cols, BLOCK=block, **kernel_args)
        ctx.save_for_backward(a, b)
        return c.view(*a.shape)

    @staticmethod
    @dense
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        n_cols = a.shape[-1]
        da, db = torch.empty_like(a), torch.empty_like(b)
        block, kernel_args = settings(n_cols)
        grid = (a.numel() // n_cols,)
        _swiglu_backward[grid](dc, a, b, da, db, n_cols, n_cols, BLOCK=block, **kernel_args)
        return da, db


def candidate(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return SwiGLU.apply(a, b)
