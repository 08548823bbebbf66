"""The product of two matrices."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


INPUTS = {"a": "M K", "b": "K N"}
WORKLOADS = [{"M": 2048, "K": 2048, "N": 2048}]
