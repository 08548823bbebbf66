"""A product of two tensors."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 4096}]
