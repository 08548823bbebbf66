"""A gate and its values in one buffer: the first half rectified times the second."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x[:, 0]) * x[:, 1]


INPUTS = {"x": "T 2 I"}
WORKLOADS = [{"T": 4096, "I": 8192}]
