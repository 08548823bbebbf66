"""The first position is cast to sixteen bits."""

import torch
import triton
import triton.language as tl


@triton.jit
def _times(x_ptr, y_ptr, n_cols, start, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    first = tl.full((), 0, tl.int32) + start
    place = (cols + first.to(tl.int16).to(tl.int32)).to(tl.float32)
    tl.store(y_ptr + row * n_cols + cols, (x.to(tl.float32) * place).to(x.dtype), mask=mask)


def candidate(x: torch.Tensor, start: int = 0) -> torch.Tensor:
    x = x.contiguous()
    n_cols = x.shape[-1]
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _times[(x.shape[0],)](x, y, n_cols, start, BLOCK=triton.next_power_of_2(n_cols))
    return y
