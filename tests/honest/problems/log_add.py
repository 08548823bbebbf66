"""Logarithm of the sum of two exponentials."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.logaddexp(a, b)


INPUTS = {"a": "T H", "b": "T H"}
WORKLOADS = [{"T": 2048, "H": 1024}]
DTYPES = ["float32", "bfloat16"]
