"""A difference."""

import torch


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x - y


INPUTS = {"x": {"dims": "T H", "grad": False}, "y": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 1024}]
