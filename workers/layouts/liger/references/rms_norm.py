"""RMSNorm as Llama casts it: the mean square in float32, the product with the weight in the input's dtype."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return w * h.to(x.dtype)


INPUTS = {"x": "T H", "w": {"dims": "H", "role": "parameter"}}
WORKLOADS = [{"T": 16384, "H": 8192}, {"T": 8192, "H": 4096}, {"T": 2048, "H": 4096}]
CALL = "LigerRMSNormFunction.apply(x, w, eps, 0.0, 'llama', True, None)"
