"""Overwrites an argument by a kernel that is tuned."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((128, 2), (256, 4), (512, 8))],
    key=["n_cols"],
)
@triton.jit
def _add(x_ptr, y_ptr, alpha, n_cols, xr, xc, yr, yc, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * xr + cols * xc, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + row * yr + cols * yc, mask=mask)
    scaled = (alpha * y.to(tl.float32)).to(y.dtype).to(tl.float32)
    tl.store(x_ptr + row * xr + cols * xc, x + scaled, mask=mask)


def candidate(x: torch.Tensor, y: torch.Tensor, alpha: float = 0.5) -> torch.Tensor:
    n_rows, n_cols = x.shape
    grid = lambda meta: (n_rows, triton.cdiv(n_cols, meta["BLOCK"]))  # noqa: E731 - as tutorials write it
    _add[grid](x, y, alpha, n_cols, *x.stride(), *y.stride())
    return x
