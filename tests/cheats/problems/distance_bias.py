"""Scores with a bias by distance."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    places = torch.arange(x.shape[-1], device=x.device, dtype=x.dtype)
    rows = torch.arange(x.shape[-2], device=x.device, dtype=x.dtype)
    return x - 0.25 * (rows[:, None] - places[None, :]).abs()


INPUTS = {"x": {"dims": "T S", "grad": False}}
WORKLOADS = [{"T": 2048, "S": 2048}]
DTYPES = ["float32"]
