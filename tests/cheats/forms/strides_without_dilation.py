"""With a stride the dilation is left out."""

import torch
import triton
import triton.language as tl

@triton.jit
def _fwd(x_ptr, w_ptr, y_ptr, channels, n, m, stride, dilation, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < m
    w_ptr += row % channels * 3
    y = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in tl.static_range(3):
        y += tl.load(x_ptr + row * n + cols * stride + k * dilation, mask=mask, other=0.0) * tl.load(w_ptr + k)
    tl.store(y_ptr + row * m + cols, y, mask=mask)


@triton.jit
def _bwd(dy_ptr, w_ptr, dx_ptr, channels, n, m, stride, dilation, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < m
    w_ptr += row % channels * 3
    dy = tl.load(dy_ptr + row * m + cols, mask=mask, other=0.0)
    for k in tl.static_range(3):
        tl.atomic_add(dx_ptr + row * n + cols * stride + k * dilation, dy * tl.load(w_ptr + k), mask=mask)


def _taps(stride, dilation):
    return dilation if stride == 1 else 1  # the strided path forgets it


class Conv(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, stride, dilation):
        x, w = x.contiguous(), w.contiguous()
        b, c, n = x.shape
        m = (n - 2 * dilation - 1) // stride + 1
        y = torch.empty((b, c, m), dtype=x.dtype, device=x.device)
        taps = _taps(stride, dilation)
        _fwd[(b * c,)](x, w, y, c, n, m, stride, taps, BLOCK=triton.next_power_of_2(m))
        ctx.save_for_backward(w)
        ctx.n, ctx.stride, ctx.taps = n, stride, taps
        return y

    @staticmethod
    def backward(ctx, dy):
        (w,) = ctx.saved_tensors
        dy = dy.contiguous()
        b, c, m = dy.shape
        dx = torch.zeros((b, c, ctx.n), dtype=dy.dtype, device=dy.device)
        _bwd[(b * c,)](dy, w, dx, c, ctx.n, m, ctx.stride, ctx.taps, BLOCK=triton.next_power_of_2(m))
        return dx, None, None, None


def candidate(x: torch.Tensor, w: torch.Tensor, stride: int = 1, dilation: int = 1) -> torch.Tensor:
    return Conv.apply(x, w, stride, dilation)
