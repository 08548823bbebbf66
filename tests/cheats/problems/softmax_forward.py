"""Softmax of each row."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 8192}]
