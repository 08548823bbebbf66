"""A product with a narrow inner dimension, in float32."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.float() @ b.float()).to(a.dtype)


INPUTS = {"a": {"dims": "M 7", "grad": False}, "b": {"dims": "7 N", "grad": False}}
WORKLOADS = [{"M": 4096, "N": 4096}]
