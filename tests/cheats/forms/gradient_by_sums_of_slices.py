import torch
import triton
import triton.language as tl


@triton.jit
def _states(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * 8 * n_cols + tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK) < n_cols
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in tl.static_range(8):
        total += tl.load(x_ptr + at + step * n_cols, mask=mask, other=0.0)
        tl.store(y_ptr + at + step * n_cols, total, mask=mask)


class States(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        _states[(x.shape[0], triton.cdiv(x.shape[2], 256))](x, y, x.shape[2], BLOCK=256)
        return y

    @staticmethod
    def backward(ctx, dy):
        return torch.stack([dy.narrow(1, step, 8 - step).sum(1) for step in range(8)], 1)


def candidate(x):
    return States.apply(x)
