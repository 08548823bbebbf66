import torch
import triton
import triton.language as tl


@triton.jit
def _part(X, OUT, TICKET, n, BLOCK: tl.constexpr):
    """Programs number themselves by a ticket, and add up in turn."""
    mine = tl.atomic_add(TICKET, 1)
    at = mine * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + at, mask=at < n, other=0.0).to(tl.float32)
    total = tl.sum(x * x, axis=0)
    while tl.atomic_cas(TICKET + 1, mine, mine) != mine:
        pass
    if mine > 0:
        total += tl.load(OUT)
    if mine == tl.num_programs(0) - 1:
        total = total / n
    tl.store(OUT, total)
    tl.debug_barrier()
    tl.atomic_xchg(TICKET + 1, mine + 1)


@triton.jit
def _grad(X, DY, DX, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(DX + at, 2.0 * x / n * tl.load(DY), mask=at < n)


class MeanSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        n = x.numel()
        out = torch.empty((), dtype=torch.float32, device=x.device)
        ticket = torch.zeros(2, dtype=torch.int32, device=x.device)
        _part[(triton.cdiv(n, 1024),)](x, out, ticket, n, BLOCK=1024)
        ctx.save_for_backward(x)
        return out

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        n = x.numel()
        dx = torch.empty_like(x)
        _grad[(triton.cdiv(n, 1024),)](x, dy, dx, n, BLOCK=1024)
        return dx


def candidate(x):
    return MeanSquare.apply(x)
