"""The logarithm of a magnitude."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.log2(x.float().abs())


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 4096}]
DTYPES = ["float32"]
