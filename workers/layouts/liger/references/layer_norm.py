"""LayerNorm over the last dimension with a weight and a bias."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b, eps)


INPUTS = {"x": "T H", "w": {"dims": "H", "role": "parameter"}, "b": {"dims": "H", "role": "parameter"}}
WORKLOADS = [{"T": 16384, "H": 8192}, {"T": 8192, "H": 4096}, {"T": 2048, "H": 4096}]
CALL = "LigerLayerNormFunction.apply(x, w, b, eps)"
