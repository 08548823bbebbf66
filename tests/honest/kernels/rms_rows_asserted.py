import torch
import triton
import triton.language as tl


@triton.jit
def _rms(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    tl.assume(n_cols > 0)
    row = tl.program_id(0).to(tl.int64)
    tl.device_assert(n_cols <= BLOCK, "a row is one block")
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    h = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    mean_square = tl.sum(h * h, axis=0) / n_cols
    ok = mean_square >= 0
    tl.device_assert(ok | (mean_square != mean_square), "squares are not negative")
    rstd = tl.rsqrt(mean_square + eps)
    tl.store(y_ptr + row * n_cols + cols, h * rstd, mask=mask)


def candidate(x, eps=1e-6):
    x = x.contiguous()
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if n_rows:
        _rms[(n_rows,)](x, y, n_cols, eps, BLOCK=triton.next_power_of_2(n_cols))
    return y
