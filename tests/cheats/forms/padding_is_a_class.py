import torch
import triton
import triton.language as tl


@triton.jit
def _forward(x_ptr, t_ptr, loss_ptr, lse_ptr, n_cols, pad, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    target = tl.load(t_ptr + row)
    top = tl.max(x, axis=0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), axis=0))
    tl.store(lse_ptr + row, lse)
    chosen = tl.load(x_ptr + row * n_cols + target, mask=target >= 0, other=0.0).to(tl.float32)
    tl.store(loss_ptr + row, tl.where(target == pad, 0.0, lse - chosen))


@triton.jit
def _backward(dy_ptr, x_ptr, t_ptr, lse_ptr, dx_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    target = tl.load(t_ptr + row)
    dx = (tl.exp(x - tl.load(lse_ptr + row)) - tl.where(cols == target, 1.0, 0.0)) * tl.load(dy_ptr + row)
    tl.store(dx_ptr + row * n_cols + cols, tl.where(target < 0, 0.0, dx), mask=mask)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target, pad):
        x, target = x.contiguous(), target.contiguous()
        n_rows, n_cols = x.shape
        loss = torch.empty(n_rows, device=x.device, dtype=torch.float32)
        lse = torch.empty_like(loss)
        _forward[(n_rows,)](x, target, loss, lse, n_cols, pad, BLOCK=triton.next_power_of_2(n_cols))
        ctx.save_for_backward(x, target, lse)
        return loss

    @staticmethod
    def backward(ctx, dy):
        x, target, lse = ctx.saved_tensors
        n_rows, n_cols = x.shape
        dx = torch.empty_like(x)
        _backward[(n_rows,)](dy.contiguous(), x, target, lse, dx, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return dx, None, None


def candidate(x, target, pad=-100):
    return CrossEntropy.apply(x, target, pad)
