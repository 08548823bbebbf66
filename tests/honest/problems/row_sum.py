"""The sum of every row, in float32."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.float().sum(-1)


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 4096, "H": 8192}]
