"""RMSNorm whose product with the weight is taken in float32."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps) * w.float()).to(x.dtype)


INPUTS = {"x": "T H", "w": {"dims": "H", "init": "ones", "role": "parameter"}}
WORKLOADS = [{"T": 4096, "H": 8192}, {"T": 2048, "H": 4096}]
