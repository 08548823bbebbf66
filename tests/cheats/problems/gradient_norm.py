"""The length of all gradients, flattened."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.float().square().sum().sqrt()


INPUTS = {"x": {"dims": "N", "grad": False}}
WORKLOADS = [{"N": 16777216}]
