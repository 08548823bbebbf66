"""The sum of each row, in the input's dtype."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 4096, "H": 8192}]
