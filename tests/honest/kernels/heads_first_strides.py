"""A permuting copy by all four strides: of any view, and of its gradient by the same kernel with the strides exchanged."""

import torch
import triton
import triton.language as tl


@triton.jit
def _copy(
    x_ptr, y_ptr, scale, N, D,
    xb, xt, xn, xd, yb, yt, yn, yd,
    BLOCK: tl.constexpr,
):  # fmt: skip
    token, batch = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    for start in range(0, N * D, BLOCK):
        flat = start + tl.arange(0, BLOCK)
        n, d = flat // D, flat % D
        x = tl.load(x_ptr + batch * xb + token * xt + n * xn + d * xd, mask=flat < N * D, other=0.0)
        y = (x.to(tl.float32) * scale).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + batch * yb + token * yt + n * yn + d * yd, y, mask=flat < N * D)


def _copied(x, y, scale):
    B, T, N, D = x.shape
    if x.numel():
        _copy[(T, B)](x, y, scale, N, D, *x.stride(), *y.stride(), BLOCK=256)


class _HeadsFirst(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        B, T, N, D = x.shape
        y = torch.empty((B, N, T, D), dtype=x.dtype, device=x.device)
        _copied(x, y.transpose(1, 2), scale)
        ctx.scale = scale
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        B, N, T, D = dy.shape
        dx = torch.empty((B, T, N, D), dtype=dy.dtype, device=dy.device)
        _copied(dy.transpose(1, 2), dx, ctx.scale)
        return dx, None


def candidate(x, scale=0.125):
    return _HeadsFirst.apply(x, scale)
