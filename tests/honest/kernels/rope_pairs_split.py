"""Neighbouring pairs are split, rotated and joined in registers; the backward rotates the other way by the same kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def _rotate(x_ptr, angle_ptr, y_ptr, N, C, SIGN: tl.constexpr, BLOCK: tl.constexpr):
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    for start in range(0, C, BLOCK):
        flat = 2 * start + tl.arange(0, 2 * BLOCK)
        at = (token * N + head) * 2 * C + flat
        x = tl.load(x_ptr + at, mask=flat < 2 * C, other=0.0)
        even, odd = tl.split(tl.reshape(x, (BLOCK, 2)))
        pair = start + tl.arange(0, BLOCK)
        angle = tl.load(angle_ptr + token * C + pair, mask=pair < C, other=0.0)
        c, s = tl.cos(angle), SIGN * tl.sin(angle)
        y = tl.interleave(even * c - odd * s, even * s + odd * c)
        tl.store(y_ptr + at, y, mask=flat < 2 * C)


def _rotated(x, angle, sign):
    T, N, C, _ = x.shape
    y = torch.empty_like(x)
    if x.numel():
        _rotate[(T, N)](x, angle, y, N, C, SIGN=sign, BLOCK=32)
    return y


class _Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, angle):
        angle = angle.contiguous()
        ctx.save_for_backward(angle)
        return _rotated(x.contiguous(), angle, 1.0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        (angle,) = ctx.saved_tensors
        return _rotated(dy.contiguous(), angle, -1.0), None


def candidate(x, angle):
    return _Rope.apply(x, angle)
