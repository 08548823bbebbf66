"""The rectifier of scaled columns, for inference."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * w)


INPUTS = {"x": {"dims": "T H", "grad": False}, "w": {"dims": "H", "init": "ones", "role": "parameter", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 4096}]
DTYPES = ["float32"]
