"""Smooth L1 of each element."""

import torch


def reference(x: torch.Tensor, t: torch.Tensor, beta: float = 1.0) -> torch.Tensor:
    d = (x - t).abs()
    return torch.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)


INPUTS = {"x": "T H", "t": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 2048, "H": 1024}]
