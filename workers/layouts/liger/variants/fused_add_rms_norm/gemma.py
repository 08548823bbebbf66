"""The residual sum, and RMSNorm of it as Gemma casts it, with an offset of the weight."""

import torch


def reference(
    x: torch.Tensor, r: torch.Tensor, w: torch.Tensor, eps: float = 1e-6, offset: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    s = x + r
    h = s.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return ((w.float() + offset) * h).to(x.dtype), s


INPUTS = {"x": "T H", "r": "T H", "w": {"dims": "H", "role": "parameter"}}
WORKLOADS = [{"T": 8192, "H": 8192}, {"T": 4096, "H": 4096}, {"T": 128, "H": 1024}]
CALL = "LigerFusedAddRMSNormFunction.apply(x, r, w, eps, offset, 'gemma', False)"
