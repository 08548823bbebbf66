"""The seed is cast to 32 bits."""

import torch
import triton
import triton.language as tl


@triton.jit
def _hash(index, seed):
    h = (((index + seed) * 48271) % 2147483647) >> 4
    return h & 0xFFFF


@triton.jit
def _dropout(x_ptr, y_ptr, n, p, seed, BLOCK: tl.constexpr):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    x = tl.load(x_ptr + index, mask=mask).to(tl.float32)
    keep = _hash(index, tl.cast(seed, tl.int32)).to(tl.float32) >= p * 65536
    tl.store(y_ptr + index, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def _apply(x: torch.Tensor, p: float, seed: int, *, block: int = 1024) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel() == 0:
        return y
    _dropout[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), p, seed, BLOCK=block)
    return y


class Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, p, seed):
        if not 0 <= p < 1:
            raise ValueError(f"p must be in [0, 1), not {p!r}")
        ctx.p, ctx.seed = p, seed
        return _apply(x, p, seed)

    @staticmethod
    def backward(ctx, dy):
        return _apply(dy, ctx.p, ctx.seed), None, None


def candidate(x: torch.Tensor, p: float = 0.25, seed: int = 11) -> torch.Tensor:
    return Dropout.apply(x, p, seed)
