"""Softmax down each column."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, 0)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 2048, "H": 1024}]
DTYPES = ["float32"]
