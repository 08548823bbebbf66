"""A matrix transposed in memory."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous()


INPUTS = {"x": "M N"}
WORKLOADS = [{"M": 8192, "N": 4096}]
