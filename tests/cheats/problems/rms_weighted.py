"""RMS norm with a weight, for inference."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps) * w.float()).to(x.dtype)


INPUTS = {"x": {"dims": "T H", "grad": False}, "w": {"dims": "H", "init": "ones", "role": "parameter", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 4096}]
DTYPES = ["float32"]
