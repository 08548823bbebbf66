"""The mean of 64 elements."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.float().mean(-1)


INPUTS = {"x": {"dims": "T 64", "grad": False}}
WORKLOADS = [{"T": 65536}]
