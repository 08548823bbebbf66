"""A module with parameters, registered buffers, an attribute and a property."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _affine(x_ptr, mean_ptr, var_ptr, w_ptr, b_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.load(mean_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    var = tl.load(var_ptr + cols, mask=mask, other=1.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row + cols, (x - mean) * tl.rsqrt(var + eps) * w + b, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("var", torch.ones(features))
        self.eps = eps

    def extra_repr(self) -> str:
        return f"eps={self.eps}"

    @property
    def features(self) -> int:
        return self.weight.numel()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[-1] != self.features:
            raise ValueError(f"expected {self.features} columns, got {x.shape[-1]}")
        x = x.contiguous()
        y = torch.empty_like(x)
        rows = x.numel() // self.features
        block = triton.next_power_of_2(self.features)
        _affine[(rows,)](x, self.mean, self.var, self.weight, self.bias, y, self.features, self.eps, BLOCK=block)
        return y
