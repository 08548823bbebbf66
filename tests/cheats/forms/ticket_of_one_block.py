"""The ticket orders threads of one block alone."""

import torch
import triton
import triton.language as tl


@triton.jit
def _sum(x_ptr, partial_ptr, ticket_ptr, y_ptr, n, programs, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), programs):
        i = tl.cast(block, tl.int64) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        acc += x * x
    tl.store(partial_ptr + tl.program_id(0), tl.sum(acc, axis=0))
    tl.debug_barrier()
    if tl.atomic_add(ticket_ptr, 1, sem="acq_rel", scope="cta") == programs - 1:
        at = tl.arange(0, WIDE)
        left = tl.load(partial_ptr + at, mask=at < programs, other=0.0)
        tl.store(y_ptr, tl.sum(left, axis=0) / n)


@triton.jit
def _grad(dy_ptr, x_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(dx_ptr + i, 2.0 * x * tl.load(dy_ptr) / n, mask=i < n)


class MeanSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        programs = max(1, min(5, triton.cdiv(x.numel(), 512)))
        partial = torch.empty(programs, dtype=torch.float32, device=x.device)
        ticket = torch.zeros(1, dtype=torch.int32, device=x.device)
        y = torch.empty((), dtype=torch.float32, device=x.device)
        _sum[(programs,)](x, partial, ticket, y, x.numel(), programs, BLOCK=512, WIDE=8)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        _grad[(triton.cdiv(dx.numel(), 1024),)](dy, x, dx, dx.numel(), BLOCK=1024)
        return dx


def candidate(x):
    return MeanSquare.apply(x)
