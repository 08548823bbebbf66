"""Rotary embedding in the form of two halves; an odd head has none."""

import torch


def reference(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.unflatten(-1, (2, -1)).unbind(-2)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


INPUTS = {"x": "B S D", "cos": {"dims": "S D", "grad": False}, "sin": {"dims": "S D", "grad": False}}
WORKLOADS = [{"B": 32, "S": 4096, "D": 128}]
