"""A gated unit whose gradients can be derived once more, by a kernel of its own."""

import torch
import triton
import triton.language as tl


@triton.jit
def _forward(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    a = tl.load(a_ptr + at, mask=mask, other=0.0)
    b = tl.load(b_ptr + at, mask=mask, other=0.0)
    tl.store(y_ptr + at, tl.where(a <= 0, 0.0, a) * b, mask=mask)


@triton.jit
def _backward(dy_ptr, a_ptr, b_ptr, da_ptr, db_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0)
    a = tl.load(a_ptr + at, mask=mask, other=0.0)
    b = tl.load(b_ptr + at, mask=mask, other=0.0)
    tl.store(da_ptr + at, tl.where(a > 0, dy * b, 0.0), mask=mask)
    tl.store(db_ptr + at, tl.where(a <= 0, 0.0, a * dy), mask=mask)


def forward_kernel(a, b):
    y = torch.empty_like(a)
    _forward[(triton.cdiv(a.numel(), 1024),)](a, b, y, a.numel(), BLOCK=1024)
    return y


def backward_kernel(dy, a, b):
    da, db = torch.empty_like(a), torch.empty_like(b)
    _backward[(triton.cdiv(a.numel(), 1024),)](dy, a, b, da, db, a.numel(), BLOCK=1024)
    return da, db


@triton.jit
def _second(dda_ptr, ddb_ptr, dy_ptr, a_ptr, b_ptr, gdy_ptr, ga_ptr, gb_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    dda = tl.load(dda_ptr + at, mask=mask, other=0.0)
    ddb = tl.load(ddb_ptr + at, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0)
    a = tl.load(a_ptr + at, mask=mask, other=0.0)
    b = tl.load(b_ptr + at, mask=mask, other=0.0)
    gate = tl.where(a > 0, 1.0, 0.0)
    tl.store(gdy_ptr + at, (dda * b * gate + ddb * a * gate).to(gdy_ptr.dtype.element_ty), mask=mask)
    tl.store(ga_ptr + at, (ddb * dy * gate).to(ga_ptr.dtype.element_ty), mask=mask)
    tl.store(gb_ptr + at, (dda * dy * gate).to(gb_ptr.dtype.element_ty), mask=mask)


class Gradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dy, a, b):
        ctx.save_for_backward(dy, a, b)
        return backward_kernel(dy.contiguous(), a, b)

    @staticmethod
    def backward(ctx, dda, ddb):
        dy, a, b = ctx.saved_tensors
        gdy, ga, gb = torch.empty_like(dy), torch.empty_like(a), torch.empty_like(b)
        n = a.numel()
        _second[(triton.cdiv(n, 1024),)](
            dda.contiguous(), ddb.contiguous(), dy.contiguous(), a, b, gdy, ga, gb, n, BLOCK=1024
        )
        return gdy, ga, gb


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        a, b = a.contiguous(), b.contiguous()
        ctx.save_for_backward(a, b)
        return forward_kernel(a, b)

    @staticmethod
    def backward(ctx, dy):
        return Gradient.apply(dy.contiguous(), *ctx.saved_tensors)


def candidate(a, b):
    return Gate.apply(a, b)
