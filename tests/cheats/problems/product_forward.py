"""A matrix product, without gradients."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


INPUTS = {"a": {"dims": "M K", "grad": False}, "b": {"dims": "K N", "grad": False}}
WORKLOADS = [{"M": 2048, "K": 2048, "N": 2048}]
