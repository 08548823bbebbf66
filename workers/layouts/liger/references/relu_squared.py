"""The square of ReLU."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.relu(x).square()


INPUTS = {"x": "T I"}
WORKLOADS = [{"T": 8192, "I": 14336}, {"T": 4096, "I": 11008}, {"T": 1024, "I": 11008}]
CALL = "LigerReLUSquaredFunction.apply(x)"
