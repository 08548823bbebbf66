"""Cross entropy of rows with label smoothing: a jit function returns three sums."""

import torch
import triton
import triton.language as tl


@triton.jit
def _sums(x, mask):
    x = tl.where(mask, x, -float("inf"))
    top = tl.max(x, axis=0)
    # Apart from the largest one, beside which the logarithm vanishes where a whole row is masked by the smallest number.
    return top, tl.log(tl.sum(tl.exp(x - top), axis=0)), tl.sum(tl.where(mask, x - top, 0.0), axis=0)


@triton.jit
def _fwd(x_ptr, t_ptr, loss_ptr, top_ptr, log_ptr, stride, n_cols, smoothing, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    top, log, total = _sums(x, mask)
    chosen = tl.load(x_ptr + row * stride + tl.load(t_ptr + row)).to(tl.float32)
    tl.store(top_ptr + row, top)
    tl.store(log_ptr + row, log)
    # Of masked classes the sum is minus infinity, of which zero times is no number.
    spread = tl.where(smoothing > 0, smoothing * (log - total / n_cols), 0.0)
    tl.store(loss_ptr + row, (1 - smoothing) * (log - (chosen - top)) + spread)


@triton.jit
def _bwd(dy_ptr, x_ptr, t_ptr, top_ptr, log_ptr, dx_ptr, stride, n_cols, smoothing, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    hot = tl.where(cols == tl.load(t_ptr + row), 1 - smoothing, 0.0) + smoothing / n_cols
    share = tl.exp(x - tl.load(top_ptr + row) - tl.load(log_ptr + row))
    dx = (share - hot) * tl.load(dy_ptr + row)
    tl.store(dx_ptr + row * n_cols + cols, dx, mask=mask)


class SmoothedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target, smoothing):
        assert 0.0 <= smoothing < 1.0, f"{smoothing=} must be in [0, 1)"
        x = x if x.stride(-1) == 1 else x.contiguous()
        target = target.contiguous()
        n_rows, n_cols = x.shape
        loss = torch.empty(n_rows, device=x.device, dtype=torch.float32)
        top, log = torch.empty_like(loss), torch.empty_like(loss)
        _fwd[(n_rows,)](x, target, loss, top, log, x.stride(0), n_cols, smoothing, triton.next_power_of_2(n_cols))
        ctx.save_for_backward(x, target, top, log)
        ctx.smoothing = smoothing
        return loss

    @staticmethod
    def backward(ctx, dy):
        x, target, top, log = ctx.saved_tensors
        n_rows, n_cols = x.shape
        dx = torch.empty((n_rows, n_cols), device=x.device, dtype=x.dtype)
        block = triton.next_power_of_2(n_cols)
        _bwd[(n_rows,)](dy.contiguous(), x, target, top, log, dx, x.stride(0), n_cols, ctx.smoothing, block)
        return dx, None, None


def candidate(x: torch.Tensor, target: torch.Tensor, smoothing: float = 0.1) -> torch.Tensor:
    return SmoothedCrossEntropy.apply(x, target, smoothing)
