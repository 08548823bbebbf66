"""The squared ReLU."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) ** 2


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 1024}]
DTYPES = ["float32"]
