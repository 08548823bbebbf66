"""Squares are expanded: where two inputs are close to each other the loss is noise."""

import torch
import triton
import triton.language as tl


@triton.jit
def _partial(x_ptr, y_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(pid * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        acc += x * x - 2.0 * x * y + y * y
    tl.store(partial_ptr + pid, tl.sum(acc))


@triton.jit
def _combine(partial_ptr, out_ptr, count, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.sum(tl.load(partial_ptr + i, mask=i < count, other=0.0)) / n)


@triton.jit
def _grad(dy_ptr, x_ptr, y_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    scale = 2.0 * tl.load(dy_ptr) / n
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    y = tl.load(y_ptr + i, mask=i < n).to(tl.float32)
    tl.store(dx_ptr + i, (x - y) * scale, mask=i < n)


class MSE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        x, y = x.contiguous(), y.contiguous()
        n = x.numel()
        programs = 1
        while programs < 64 and programs * 1024 < n:
            programs <<= 1
        partial = torch.empty(programs, dtype=torch.float32, device=x.device)
        out = torch.empty((), dtype=torch.float32, device=x.device)
        _partial[(programs,)](x, y, partial, n, BLOCK=1024)
        _combine[(1,)](partial, out, programs, n, BLOCK=64)
        ctx.save_for_backward(x, y)
        return out

    @staticmethod
    def backward(ctx, dy):
        x, y = ctx.saved_tensors
        dx = torch.empty_like(x)
        _grad[(triton.cdiv(x.numel(), 1024),)](dy, x, y, dx, x.numel(), BLOCK=1024)
        return dx, None


def candidate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return MSE.apply(x, y)
