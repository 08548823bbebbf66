"""Rotary embedding on views: halves by slices of the tensors, their strides passed."""

import torch
import triton
import triton.language as tl


@triton.jit
def _turn(
    l_ptr,
    r_ptr,
    cos_l_ptr,
    cos_r_ptr,
    sin_l_ptr,
    sin_r_ptr,
    out_l_ptr,
    out_r_ptr,
    stride_b,
    stride_s,
    stride_cos,
    stride_sin,
    out_b,
    out_s,
    half,
    INVERSE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    s = tl.program_id(1).to(tl.int64)
    i = tl.arange(0, BLOCK)
    m = i < half
    left = tl.load(l_ptr + b * stride_b + s * stride_s + i, mask=m)
    right = tl.load(r_ptr + b * stride_b + s * stride_s + i, mask=m)
    cos_l = tl.load(cos_l_ptr + s * stride_cos + i, mask=m)
    cos_r = tl.load(cos_r_ptr + s * stride_cos + i, mask=m)
    sin_l = tl.load(sin_l_ptr + s * stride_sin + i, mask=m)
    sin_r = tl.load(sin_r_ptr + s * stride_sin + i, mask=m)
    if INVERSE:
        out_l = left * cos_l + right * sin_r
        out_r = right * cos_r - left * sin_l
    else:
        out_l = left * cos_l - right * sin_l
        out_r = right * cos_r + left * sin_r
    tl.store(out_l_ptr + b * out_b + s * out_s + i, out_l, mask=m)
    tl.store(out_r_ptr + b * out_b + s * out_s + i, out_r, mask=m)


def _halves(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def turn(x, cos, sin, inverse=False):
    x, cos, sin = (t if t.stride(-1) == 1 else t.contiguous() for t in (x, cos, sin))
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    parts = [part for t in (x, cos, sin, out) for part in _halves(t)]
    strides = (*x.stride()[:2], cos.stride(0), sin.stride(0), *out.stride()[:2])
    half = x.shape[-1] // 2
    _turn[tuple(x.shape[:2])](*parts, *strides, half, INVERSE=inverse, BLOCK=triton.next_power_of_2(half))
    return out


class Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return turn(x, cos, sin)

    @staticmethod
    def backward(ctx, dy):
        return (turn(dy, *ctx.saved_tensors, inverse=True), *[None] * 2)


def candidate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return Rope.apply(x, cos, sin)
