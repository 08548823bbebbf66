"""The sum of two tensors, one of them scaled."""

import torch


def reference(x: torch.Tensor, y: torch.Tensor, alpha: float = 0.5) -> torch.Tensor:
    return x + alpha * y


INPUTS = {"x": "T H", "y": "T H"}
WORKLOADS = [{"T": 4096, "H": 8192}]
