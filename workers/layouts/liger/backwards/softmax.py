"""The gradient of softmax over the last dimension, from what it returned."""

import torch


def reference(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    upstream, result = dy.float(), y.float()
    return (result * (upstream - (result * upstream).sum(-1, keepdim=True))).to(y.dtype)


INPUTS = {"dy": {"dims": "T H", "grad": False}, "y": {"dims": "T H", "init": "softmax", "grad": False}}
WORKLOADS = [{"T": 16384, "H": 8192}, {"T": 8192, "H": 4096}, {"T": 2048, "H": 4096}]
