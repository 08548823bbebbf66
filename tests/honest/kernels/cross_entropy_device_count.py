"""Cross entropy with ignored rows, counted on the device: a second kernel adds losses and counts, and writes the mean."""

import torch
import triton
import triton.language as tl

IGNORE: tl.constexpr = tl.constexpr(-1)


@triton.jit
def _rows(x_ptr, target_ptr, loss_ptr, top_ptr, lse_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    top = tl.max(x, axis=0)
    lse = tl.log(tl.sum(tl.exp(x - top), axis=0))
    at = tl.load(target_ptr + row)
    counted = at != IGNORE
    chosen = tl.load(x_ptr + row * stride + at, mask=counted, other=0.0).to(tl.float32)
    tl.store(loss_ptr + row, tl.where(counted, lse - (chosen - top), 0.0))
    tl.store(top_ptr + row, top)
    tl.store(lse_ptr + row, lse)


@triton.jit
def _mean(loss_ptr, target_ptr, mean_ptr, count_ptr, n_rows, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, n_rows, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(loss_ptr + i, mask=i < n_rows, other=0.0)
        count += (tl.load(target_ptr + i, mask=i < n_rows, other=IGNORE) != IGNORE).to(tl.int32)
    counted = tl.maximum(tl.sum(count, axis=0), 1).to(tl.float32)
    tl.store(mean_ptr, tl.sum(total, axis=0) / counted)
    tl.store(count_ptr, counted)


@triton.jit
def _grad(dy_ptr, x_ptr, target_ptr, top_ptr, lse_ptr, count_ptr, dx_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    at = tl.load(target_ptr + row)
    scale = tl.load(dy_ptr) / tl.load(count_ptr)
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    p = tl.exp(x - tl.load(top_ptr + row) - tl.load(lse_ptr + row))
    dx = tl.where(at == IGNORE, 0.0, (p - tl.where(cols == at, 1.0, 0.0)) * scale)
    tl.store(dx_ptr + row * n_cols + cols, dx, mask=mask)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        x = x if x.stride(-1) == 1 else x.contiguous()
        target = target.contiguous()
        n_rows, n_cols = x.shape
        loss, top, lse = (torch.empty(n_rows, dtype=torch.float32, device=x.device) for _ in range(3))
        mean, count = (torch.empty((), dtype=torch.float32, device=x.device) for _ in "mc")
        block = triton.next_power_of_2(n_cols)
        _rows[(n_rows,)](x, target, loss, top, lse, x.stride(0), n_cols, BLOCK=block)
        _mean[(1,)](loss, target, mean, count, n_rows, BLOCK=256)
        ctx.save_for_backward(x, target, top, lse, count)
        ctx.block = block
        return mean

    @staticmethod
    def backward(ctx, dy):
        x, target, top, lse, count = ctx.saved_tensors
        dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        n_rows, n_cols = x.shape
        _grad[(n_rows,)](dy, x, target, top, lse, count, dx, x.stride(0), n_cols, BLOCK=ctx.block)
        return dx, None


def candidate(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return CrossEntropy.apply(x, target)
