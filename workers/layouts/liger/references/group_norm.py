"""GroupNorm of 32 groups over channels, with a weight and a bias for each channel."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, groups: int = 32, eps: float = 1e-6) -> torch.Tensor:
    return torch.nn.functional.group_norm(x, groups, w, b, eps)


INPUTS = {"x": "N C S", "w": {"dims": "C", "role": "parameter"}, "b": {"dims": "C", "role": "parameter"}}
WORKLOADS = [{"N": 64, "C": 512, "S": 4096}, {"N": 32, "C": 512, "S": 1024}, {"N": 8, "C": 512, "S": 512}]
DTYPES = ["float32", "bfloat16"]
CALL = "LigerGroupNormFunction.apply(x, w, b, x.shape[1], groups, eps)"
