"""A residual sum."""

import torch


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


INPUTS = {"x": "T H", "y": "T H"}
WORKLOADS = [{"T": 4096, "H": 8192}]
