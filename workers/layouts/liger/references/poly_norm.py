"""PolyNorm: the weighted sum of the normalized cube, square and value of a row."""

import torch


def unit(v: torch.Tensor, eps: float) -> torch.Tensor:
    return v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + eps)


def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    h = x.float()
    return (w[0] * unit(h * h * h, eps) + w[1] * unit(h * h, eps) + w[2] * unit(h, eps) + b).to(x.dtype)


INPUTS = {"x": "T H", "w": {"dims": "3", "role": "parameter"}, "b": {"dims": "", "role": "parameter"}}
WORKLOADS = [{"T": 16384, "H": 8192}, {"T": 8192, "H": 4096}, {"T": 2048, "H": 4096}]
CALL = "LigerPolyNormFunction.apply(x, w, b, eps, True)"
