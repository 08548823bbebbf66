"""The gradient exactly at a limit, in a problem of float16 alone."""

import torch
import triton
import triton.language as tl


@triton.jit
def _fwd(X, Y, H, sr, sc, BH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, H, BH):
        cols = start + tl.arange(0, BH).to(tl.int64)
        x = tl.load(X + row * sr + cols * sc, mask=cols < H).to(tl.float32)
        y = tl.where(x > 20.0, 20.0, tl.where(x < -20.0, -20.0, x))
        tl.store(Y + row * H + cols, y, mask=cols < H)


@triton.jit
def _bwd(D, X, Y, H, dr, dc, sr, sc, BH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, H, BH):
        cols = start + tl.arange(0, BH).to(tl.int64)
        x = tl.load(X + row * sr + cols * sc, mask=cols < H).to(tl.float32)
        d = tl.load(D + row * dr + cols * dc, mask=cols < H).to(tl.float32)
        out = (x > 20.0) | (x < -20.0)
        tl.store(Y + row * H + cols, tl.where(out, 0.0, d), mask=cols < H)


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x2 = x.reshape(-1, x.shape[-1])
        y = torch.empty(x2.shape, dtype=x.dtype, device=x.device)
        _fwd[(x2.shape[0],)](x2, y, x2.shape[1], x2.stride(0), x2.stride(1), BH=512)
        ctx.save_for_backward(x)
        return y.view(x.shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d):
        (x,) = ctx.saved_tensors
        x2, d2 = x.reshape(-1, x.shape[-1]), d.reshape(-1, x.shape[-1])
        y = torch.empty(x2.shape, dtype=x.dtype, device=x.device)
        _bwd[(x2.shape[0],)](d2, x2, y, x2.shape[1], d2.stride(0), d2.stride(1), x2.stride(0), x2.stride(1), BH=512)
        return y.view(x.shape)


def candidate(x: torch.Tensor) -> torch.Tensor:
    return Clamp.apply(x)
