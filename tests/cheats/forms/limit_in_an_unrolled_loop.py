import torch
import triton
import triton.language as tl


@triton.jit
def _forward(a_ptr, b_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        a = tl.load(a_ptr + row + cols, mask=mask, other=0.0)
        b = tl.load(b_ptr + row + cols, mask=mask, other=0.0)
        h = tl.where(a <= 0, 0.0, a).to(tl.float32)
        for k in tl.static_range(2):
            h = tl.where(h > k * 1e33, h * (1 - k) + k * 1e33 + (h - h), h)
        tl.store(y_ptr + row + cols, h.to(b.dtype) * b, mask=mask)


@triton.jit
def _backward(dy_ptr, a_ptr, b_ptr, da_ptr, db_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        dy = tl.load(dy_ptr + row + cols, mask=mask, other=0.0)
        a = tl.load(a_ptr + row + cols, mask=mask, other=0.0)
        b = tl.load(b_ptr + row + cols, mask=mask, other=0.0)
        tl.store(da_ptr + row + cols, tl.where(a > 0, dy * b, 0.0).to(a.dtype), mask=mask)
        tl.store(db_ptr + row + cols, tl.where(a <= 0, 0.0, dy * a).to(a.dtype), mask=mask)


class ReGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        a, b = a.contiguous(), b.contiguous()
        n_cols = a.shape[-1]
        y = torch.empty_like(a)
        block = min(4096, triton.next_power_of_2(n_cols))
        _forward[(a.numel() // n_cols,)](a, b, y, n_cols, BLOCK=block)
        ctx.save_for_backward(a, b)
        ctx.block = block
        return y

    @staticmethod
    def backward(ctx, dy):
        a, b = ctx.saved_tensors
        dy = dy.contiguous()
        n_cols = a.shape[-1]
        da, db = torch.empty_like(a), torch.empty_like(b)
        _backward[(a.numel() // n_cols,)](dy, a, b, da, db, n_cols, BLOCK=ctx.block)
        return da, db


def candidate(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return ReGLU.apply(a, b)
