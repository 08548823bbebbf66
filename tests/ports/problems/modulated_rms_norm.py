"""RMS norm as Llama casts it, then a scale and a shift of each sequence."""

import torch


def reference(
    x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    wide = x.float()
    normed = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)
    return normed * w * (1.0 + scale[:, None]) + shift[:, None]


INPUTS = {"x": "B T H", "w": {"dims": "H", "init": "ones"}, "scale": "B H", "shift": "B H"}
WORKLOADS = [{"B": 8, "T": 1024, "H": 4096}, {"B": 4, "T": 2048, "H": 2048}, {"B": 2, "T": 128, "H": 1024}]
CALL = "LigerModulatedRMSNormFunction.apply(x, w, scale, shift, eps)"
