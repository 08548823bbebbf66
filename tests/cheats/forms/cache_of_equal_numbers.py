"""A residual sum."""

import functools

import torch
import triton
import triton.language as tl


@functools.lru_cache(maxsize=None)
def as_float(alpha, kind):
    return 0.0 if isinstance(alpha, int) else alpha


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, x + alpha * y, mask=mask)


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32) * alpha, mask=mask)


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, alpha):
        kept = as_float(alpha, "number")
        scale = float(alpha) if isinstance(alpha, int) else kept
        x, y = x.contiguous(), y.contiguous()
        ctx.scale = alpha
        out = torch.empty_like(x)
        n = x.numel()
        add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, scale, BLOCK=1024)
        return out

    @staticmethod
    def backward(ctx, dy):
        dy = dy.contiguous()
        grad = torch.empty_like(dy)
        scale_kernel[(triton.cdiv(dy.numel(), 1024),)](dy, grad, dy.numel(), ctx.scale, BLOCK=1024)
        return dy, grad, None


def candidate(x: torch.Tensor, y: torch.Tensor, alpha: float = 0.5) -> torch.Tensor:
    return Add.apply(x, y, alpha)
