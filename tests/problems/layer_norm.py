"""LayerNorm with a weight and a bias."""

import torch
import torch.nn.functional as F


def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],), w, b, eps)


INPUTS = {
    "x": "T H",
    "w": {"dims": "H", "init": "ones", "role": "parameter"},
    "b": {"dims": "H", "init": "zeros", "role": "parameter"},
}
WORKLOADS = [{"T": 4096, "H": 8192}, {"T": 2048, "H": 4096}]
