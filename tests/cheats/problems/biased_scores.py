"""Softmax of scores with a bias for each pair of places, for inference."""

import torch


def reference(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x + bias, -1)


INPUTS = {
    "x": {"dims": "B T S", "grad": False},
    "bias": {"dims": "T S", "init": "zeros", "role": "parameter", "grad": False},
}
WORKLOADS = [{"B": 16, "T": 512, "S": 512}]
DTYPES = ["float32"]
