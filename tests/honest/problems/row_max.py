"""The largest element of every row, and where it is."""

import torch


def reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = x.max(dim=-1)
    return values, indices


INPUTS = {"x": "T V"}
WORKLOADS = [{"T": 4096, "V": 8192}]
DTYPES = ["float32"]
