"""Cumulative sum of every row, in float32."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.float().cumsum(-1).to(x.dtype)


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 4096, "H": 4096}]
