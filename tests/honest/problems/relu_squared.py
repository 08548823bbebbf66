"""Squared ReLU."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x.float()).square().to(x.dtype)


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 4096, "H": 8192}]
