"""Running sums of eight steps."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(1)


INPUTS = {"x": "T 8 H"}
WORKLOADS = [{"T": 1024, "H": 1024}]
DTYPES = ["float32"]
