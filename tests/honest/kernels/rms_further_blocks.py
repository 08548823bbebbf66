import torch
import triton
import triton.language as tl


# Triton 3.6 compiles no loop of which it knows that it never runs.
@triton.jit(do_not_specialize=["n_cols"])
def _rms(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n_cols
    y_ptr += row * n_cols
    cols = tl.arange(0, BLOCK)
    h = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    total = tl.sum(h * h, axis=0)
    # Rows of more than one block.
    end = BLOCK
    while end < n_cols:
        more = tl.load(x_ptr + end + cols, mask=end + cols < n_cols, other=0.0).to(tl.float32)
        total += tl.sum(more * more, axis=0)
        end += BLOCK
    rstd = 1.0 / tl.sqrt(total / n_cols + eps)
    tl.store(y_ptr + cols, h * rstd, mask=cols < n_cols)
    end = BLOCK
    while end < n_cols:
        more = tl.load(x_ptr + end + cols, mask=end + cols < n_cols, other=0.0).to(tl.float32)
        tl.store(y_ptr + end + cols, more * rstd, mask=end + cols < n_cols)
        end += BLOCK


def candidate(x, eps=1e-6):
    x = x.contiguous()
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if n_rows:
        _rms[(n_rows,)](x, y, n_cols, eps, BLOCK=triton.next_power_of_2(n_cols))
    return y
