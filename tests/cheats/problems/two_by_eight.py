"""A function of a product whose inner dimension is eight."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.exp(-(a.float() @ b.float()).abs()).to(a.dtype)


INPUTS = {"a": {"dims": "M 8", "grad": False}, "b": {"dims": "8 N", "grad": False}}
WORKLOADS = [{"M": 1024, "N": 1024}]
