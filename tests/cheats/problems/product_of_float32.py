"""A matrix product in float32, as exact as torch gives it."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w


INPUTS = {"x": {"dims": "M K", "grad": False}, "w": {"dims": "K N", "grad": False}}
WORKLOADS = [{"M": 1024, "K": 512, "N": 1024}]
DTYPES = ["float32"]
