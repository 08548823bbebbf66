"""Causal depthwise convolution on a grid of three dimensions; partial weight gradients by blocks, then summed."""

import torch
import triton
import triton.language as tl

TAPS = 4
BLOCK = 128


@triton.jit
def _conv(x_ptr, w_ptr, y_ptr, length, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    channel = tl.program_id(1)
    base = (tl.program_id(2).to(tl.int64) * tl.num_programs(1) + channel) * length
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(TAPS):
        s = t - (TAPS - 1) + tap
        x = tl.load(x_ptr + base + s, mask=(s >= 0) & (t < length), other=0.0).to(tl.float32)
        acc += x * tl.load(w_ptr + channel * TAPS + tap).to(tl.float32)
    tl.store(y_ptr + base + t, acc, mask=t < length)


@triton.jit
def _conv_grad(dy_ptr, x_ptr, w_ptr, dx_ptr, dw_ptr, length, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    block, channel, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    base = (batch.to(tl.int64) * tl.num_programs(1) + channel) * length
    t = block * BLOCK + tl.arange(0, BLOCK)
    dy = tl.load(dy_ptr + base + t, mask=t < length, other=0.0).to(tl.float32)
    dx = tl.zeros((BLOCK,), tl.float32)
    partial = (batch * tl.num_programs(0) + block) * tl.num_programs(1) + channel
    for tap in tl.static_range(TAPS):
        ahead = t + (TAPS - 1) - tap
        w = tl.load(w_ptr + channel * TAPS + tap).to(tl.float32)
        dx += w * tl.load(dy_ptr + base + ahead, mask=ahead < length, other=0.0).to(tl.float32)
        s = t - (TAPS - 1) + tap
        x = tl.load(x_ptr + base + s, mask=(s >= 0) & (t < length), other=0.0).to(tl.float32)
        tl.store(dw_ptr + partial * TAPS + tap, tl.sum(dy * x, axis=0))
    tl.store(dx_ptr + base + t, dx, mask=t < length)


class CausalConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        x, w = x.contiguous(), w.contiguous()
        batch, channels, length = x.shape
        assert w.shape == (channels, TAPS)
        y = torch.empty_like(x)
        _conv[triton.cdiv(length, BLOCK), channels, batch](x, w, y, length, TAPS=TAPS, BLOCK=BLOCK)
        ctx.save_for_backward(x, w)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        batch, channels, length = x.shape
        blocks = triton.cdiv(length, BLOCK)
        dx = torch.empty_like(x)
        dw = torch.empty((batch * blocks, channels, TAPS), dtype=torch.float32, device=x.device)
        _conv_grad[blocks, channels, batch](dy.contiguous(), x, w, dx, dw, length, TAPS=TAPS, BLOCK=BLOCK)
        return dx, dw.sum(dim=0).to(w.dtype)


def candidate(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return CausalConv.apply(x, w)
