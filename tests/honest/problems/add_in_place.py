"""A scaled sum into the first argument."""

import torch


def reference(x: torch.Tensor, y: torch.Tensor, alpha: float = 0.5) -> torch.Tensor:
    return x + alpha * y


INPUTS = {"x": {"dims": "T H", "grad": False}, "y": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 8192}]
MUTATES = ["x"]
