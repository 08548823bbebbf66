"""Swish with a gain."""

import torch


def reference(x: torch.Tensor, gain: float = 0.7) -> torch.Tensor:
    h = x.float()
    return (h * torch.sigmoid(gain * h)).to(x.dtype)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 4096}]
