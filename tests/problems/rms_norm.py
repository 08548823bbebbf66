"""RMSNorm with a weight: the mean square in float32, the product with the weight in the input's dtype."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return w * h.to(x.dtype)


INPUTS = {"x": "T H", "w": {"dims": "H", "init": "ones", "role": "parameter"}}
WORKLOADS = [{"T": 4096, "H": 8192}, {"T": 2048, "H": 4096}]
