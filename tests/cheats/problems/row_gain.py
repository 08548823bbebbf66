"""Each row times a number of its own."""

import torch


def reference(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return x * s[:, None]


INPUTS = {"x": {"dims": "T H", "grad": False}, "s": {"dims": "T", "grad": False}}
WORKLOADS = [{"T": 1024, "H": 64}]
DTYPES = ["float32"]
