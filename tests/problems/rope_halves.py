"""Rotary embedding in the form of two halves: works on even sizes of the head only."""

import torch


def reference(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    return x * cos + torch.cat((-right, left), dim=-1) * sin


INPUTS = {
    "x": "B S D",
    "cos": {"dims": "S D", "grad": False},
    "sin": {"dims": "S D", "grad": False},
}
WORKLOADS = [{"B": 32, "S": 4096, "D": 128}]
