"""Layer norm over the channels of each place, as of ConvNeXt."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    h = x.float()
    mean = h.mean(1, keepdim=True)
    var = (h - mean).square().mean(1, keepdim=True)
    y = (h - mean) * torch.rsqrt(var + eps)
    return (y * w.float()[:, None] + b.float()[:, None]).to(x.dtype)


INPUTS = {
    "x": "B C L",
    "w": {"dims": "C", "init": "ones", "role": "parameter"},
    "b": {"dims": "C", "init": "zeros", "role": "parameter"},
}
WORKLOADS = [{"B": 8, "C": 128, "L": 3136}]
