"""An honest scaled ReLU as a module."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _scaled_relu(x_ptr, scale_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row + cols, mask=mask, other=0.0)
    scale = tl.load(scale_ptr + cols, mask=mask, other=0.0)
    tl.store(y_ptr + row + cols, tl.maximum(x, 0.0) * scale, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n_cols = x.shape[-1]
        grid = (x.numel() // n_cols,)
        _scaled_relu[grid](x, self.scale, y, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return y
