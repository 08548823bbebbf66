"""Attention of each position to the seven nearest ones, itself among them."""

import math

import torch


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = (q @ k.transpose(-1, -2)) * (1 / math.sqrt(q.shape[-1]))
    place = torch.arange(q.shape[-2], device=q.device)
    far = (place[:, None] - place[None, :]).abs() > 3
    return scores.masked_fill(far, float("-inf")).softmax(-1) @ v


INPUTS = {"q": "B N S D", "k": "B N S D", "v": "B N S D"}
WORKLOADS = [
    {"B": 1, "N": 32, "S": 4096, "D": 128},
    {"B": 1, "N": 32, "S": 1024, "D": 128},
    {"B": 1, "N": 16, "S": 1024, "D": 64},
]
CALL = "LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 7, 1, None)"
