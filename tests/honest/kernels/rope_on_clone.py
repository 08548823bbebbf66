"""Rotary embedding in place on a clone; the gradient turns the other way by a constexpr flag."""

import torch
import triton
import triton.language as tl


@triton.jit
def _rope(x_ptr, cos_ptr, sin_ptr, seq_len, dim, BACKWARD: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    step = pid % seq_len
    half = dim // 2
    cols = tl.arange(0, BLOCK)
    mask = cols < half
    left = tl.load(x_ptr + pid * dim + cols, mask=mask, other=0.0)
    right = tl.load(x_ptr + pid * dim + half + cols, mask=mask, other=0.0)
    cos_l = tl.load(cos_ptr + step * dim + cols, mask=mask, other=0.0)
    cos_r = tl.load(cos_ptr + step * dim + half + cols, mask=mask, other=0.0)
    sin_l = tl.load(sin_ptr + step * dim + cols, mask=mask, other=0.0)
    sin_r = tl.load(sin_ptr + step * dim + half + cols, mask=mask, other=0.0)
    if BACKWARD:
        new_left = left * cos_l + right * sin_r
        new_right = right * cos_r - left * sin_l
    else:
        new_left = left * cos_l - right * sin_l
        new_right = right * cos_r + left * sin_r
    tl.store(x_ptr + pid * dim + cols, new_left, mask=mask)
    tl.store(x_ptr + pid * dim + half + cols, new_right, mask=mask)


def rotate_(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, backward: bool) -> torch.Tensor:
    batch, seq_len, dim = x.shape
    if dim % 2 != 0:
        raise ValueError(f"the head has {dim} elements, which is odd")
    block = triton.next_power_of_2(dim // 2)
    _rope[(batch * seq_len,)](x, cos, sin, seq_len, dim, BACKWARD=backward, BLOCK=block)
    return x


class Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        cos, sin = cos.contiguous(), sin.contiguous()
        ctx.save_for_backward(cos, sin)
        return rotate_(x.clone(memory_format=torch.contiguous_format), cos, sin, backward=False)

    @staticmethod
    def backward(ctx, dy):
        cos, sin = ctx.saved_tensors
        return rotate_(dy.clone(memory_format=torch.contiguous_format), cos, sin, backward=True), None, None


def candidate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return Rope.apply(x, cos, sin)
