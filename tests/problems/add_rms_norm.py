"""A residual sum and its RMSNorm: two outputs."""

import torch


def reference(
    x: torch.Tensor, residual: torch.Tensor, w: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    s = x + residual
    h = s.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return w * h.to(x.dtype), s


INPUTS = {"x": "T H", "residual": "T H", "w": {"dims": "H", "init": "ones", "role": "parameter"}}
WORKLOADS = [{"T": 4096, "H": 8192}]
