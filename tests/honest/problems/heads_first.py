"""Heads before tokens, scaled."""

import torch


def reference(x: torch.Tensor, scale: float = 0.125) -> torch.Tensor:
    return (x * scale).permute(0, 2, 1, 3).contiguous()


INPUTS = {"x": "B T N D"}
WORKLOADS = [{"B": 4, "T": 1024, "N": 16, "D": 64}]
