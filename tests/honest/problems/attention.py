"""Causal attention of one head of 16 elements, without gradients."""

import math

import torch


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])
    steps = torch.arange(q.shape[1], device=q.device)
    scores = scores.masked_fill(steps[:, None] < steps[None, :], -float("inf"))
    return (torch.softmax(scores, -1) @ v.float()).to(q.dtype)


INPUTS = {
    "q": {"dims": "B S 16", "grad": False},
    "k": {"dims": "B S 16", "grad": False},
    "v": {"dims": "B S 16", "grad": False},
}
WORKLOADS = [{"B": 32, "S": 2048}]
