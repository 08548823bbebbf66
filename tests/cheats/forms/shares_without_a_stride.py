import torch
import triton
import triton.language as tl


@triton.jit
def _forward(x_ptr, s_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    s = tl.load(s_ptr + row).to(tl.float32)
    for begin in range(0, n_cols, BLOCK):
        cols = begin + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * n_cols + cols, x * s, mask=mask)


@triton.jit
def _backward(dy_ptr, x_ptr, s_ptr, dx_ptr, ds_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    s = tl.load(s_ptr + row).to(tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, n_cols, BLOCK):
        cols = begin + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + row * n_cols + cols, dy * s, mask=mask)
        total += dy * x
    tl.store(ds_ptr + row, tl.sum(total, axis=0))


class RowScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        x = x.contiguous()
        rows, cols = x.shape
        y = torch.empty((rows, cols), dtype=x.dtype, device=x.device)
        _forward[(rows,)](x, s, y, x.stride(0), cols, BLOCK=1024)
        ctx.save_for_backward(x, s)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, s = ctx.saved_tensors
        rows, cols = x.shape
        dx, ds = torch.empty_like(x), torch.empty((rows,), dtype=s.dtype, device=s.device)
        _backward[(rows,)](dy.contiguous(), x, s, dx, ds, x.stride(0), cols, BLOCK=1024)
        return dx, ds


def candidate(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return RowScale.apply(x, s)
