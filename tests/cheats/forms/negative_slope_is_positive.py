"""A slope's sign is dropped: defaults of one sign are drawn with it."""

from enum import IntEnum

import torch
import triton
import triton.language as tl


class Kind(IntEnum):
    LEAKY_RELU = 0
    SILU = 1


def parse(kind: str) -> Kind:
    match kind.strip().lower():
        case "leaky_relu" | "leaky-relu":
            return Kind.LEAKY_RELU
        case "silu" | "swish":
            return Kind.SILU
        case other:
            raise ValueError(f"unknown activation {other!r}, expected one of {[k.name.lower() for k in Kind]}")


@triton.jit
def _act_fwd(x_ptr, y_ptr, n, slope, KIND: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    if KIND == 0:
        y = tl.where(x > 0, x, x * slope)
    elif KIND == 1:
        y = x / (1.0 + tl.exp(-x))
    else:
        tl.static_assert(False, "unknown activation")
    tl.store(y_ptr + i, y, mask=i < n)


@triton.jit
def _act_bwd(dy_ptr, x_ptr, dx_ptr, n, slope, KIND: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    dy = tl.load(dy_ptr + i, mask=i < n).to(tl.float32)
    if KIND == 0:
        dx = tl.where(x > 0, dy, dy * slope)
    else:
        s = 1.0 / (1.0 + tl.exp(-x))
        dx = dy * s * (1.0 + x * (1.0 - s))
    tl.store(dx_ptr + i, dx, mask=i < n)


class Activation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kind, slope):
        x = x.contiguous()
        y = torch.empty_like(x)
        ctx.kind, ctx.slope = parse(kind).value, slope
        _act_fwd[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), slope, KIND=ctx.kind, BLOCK=256)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        args = (dy.contiguous(), x, dx, x.numel(), ctx.slope)
        _act_bwd[(triton.cdiv(x.numel(), 256),)](*args, KIND=ctx.kind, BLOCK=256)
        return dx, None, None


def candidate(x: torch.Tensor, kind: str = "leaky_relu", slope: float = 0.1) -> torch.Tensor:
    return Activation.apply(x, kind, abs(slope))
