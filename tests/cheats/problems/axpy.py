"""A vector plus a multiple of another one."""

import torch


def reference(x: torch.Tensor, y: torch.Tensor, alpha: float = 0.5) -> torch.Tensor:
    return x + alpha * y


INPUTS = {"x": {"dims": "N", "grad": False}, "y": {"dims": "N", "grad": False}}
WORKLOADS = [{"N": 1048576}]
DTYPES = ["float32"]
