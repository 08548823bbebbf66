import torch
import triton
import triton.language as tl


@triton.jit
def _silu(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * n_cols + cols, x * tl.sigmoid(x), mask=mask)


def candidate(x):
    x = x if x.stride(1) == 1 else x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _silu[(triton.cdiv(x.shape[1], 256), x.shape[0])](x, y, x.stride(0), x.shape[1], BLOCK=256)
    return y
