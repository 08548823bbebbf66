"""A matrix' transpose, and the sums of its rows."""

import torch


def reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.t().contiguous(), x.float().sum(-1)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 4096}]
