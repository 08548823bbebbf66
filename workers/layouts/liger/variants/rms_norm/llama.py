"""RMSNorm as Llama casts it, with an offset of the weight."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6, offset: float = 0.0) -> torch.Tensor:
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return (w + offset) * h.to(x.dtype)


INPUTS = {"x": "T H", "w": {"dims": "H", "role": "parameter"}}
WORKLOADS = [{"T": 8192, "H": 8192}, {"T": 4096, "H": 4096}, {"T": 128, "H": 1024}]
CALL = "LigerRMSNormFunction.apply(x, w, eps, offset, 'llama', True, None)"
