"""A transposed matrix is taken to be dense: that of a part of a table is not."""

import torch
import triton
import triton.language as tl


@triton.jit
def _relu2(X, Y, H, sr, sc, BH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, H, BH):
        cols = start + tl.arange(0, BH).to(tl.int64)
        x = tl.load(X + row * sr + cols * sc, mask=cols < H)
        y = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
        tl.store(Y + row * H + cols, y * y, mask=cols < H)


def candidate(x: torch.Tensor) -> torch.Tensor:
    T, H = x.shape
    y = torch.empty((T, H), dtype=x.dtype, device=x.device)
    sr, sc = x.stride()
    if sr == 1 and sc > 1:
        sc = T  # a transposed matrix
    _relu2[(T,)](x, y, H, sr, sc, BH=512)
    return y
