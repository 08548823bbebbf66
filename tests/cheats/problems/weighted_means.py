"""Means by weights, of every row."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    x, w = x.float(), w.float()
    return (x * w).sum(-1) / w.sum(-1)


INPUTS = {"x": {"dims": "T H", "grad": False}, "w": {"dims": "T H", "init": "uniform", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 4096}]
