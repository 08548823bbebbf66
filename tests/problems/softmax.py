"""Softmax over the last dimension."""

import torch
import torch.nn.functional as F


def reference(x: torch.Tensor) -> torch.Tensor:
    return F.softmax(x, dim=-1)


INPUTS = {"x": "T V"}
WORKLOADS = [{"T": 4096, "V": 8192}]
