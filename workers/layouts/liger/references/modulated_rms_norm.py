"""RMSNorm as Llama casts it, scaled and shifted for each sample."""

import torch


def reference(
    x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return w * h.to(x.dtype) * (1 + scale[:, None]) + shift[:, None]


INPUTS = {"x": "B T H", "w": {"dims": "H", "role": "parameter"}, "scale": "B H", "shift": "B H"}
WORKLOADS = [{"B": 4, "T": 4096, "H": 4096}, {"B": 2, "T": 4096, "H": 3072}, {"B": 2, "T": 1024, "H": 1536}]
CALL = "LigerModulatedRMSNormFunction.apply(x, w, scale, shift, eps, 0.0, 'llama', True)"
