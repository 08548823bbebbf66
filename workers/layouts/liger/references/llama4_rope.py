"""Rotary embedding of queries and keys, neighbours as the parts of a complex number, times numbers of each position."""

import torch


def rotate(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    a, b = x[..., 0::2], x[..., 1::2]
    c, s = turn[..., 0].unsqueeze(1), turn[..., 1].unsqueeze(1)
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)


def reference(q: torch.Tensor, k: torch.Tensor, turn: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return rotate(q, turn), rotate(k, turn)


INPUTS = {"q": "B S Q 128", "k": "B S K 128", "turn": {"dims": "S 64 2", "grad": False}}
MUTATES = ["q", "k"]
WORKLOADS = [
    {"B": 4, "S": 4096, "Q": 40, "K": 8},
    {"B": 1, "S": 4096, "Q": 40, "K": 8},
    {"B": 1, "S": 1024, "Q": 40, "K": 8},
]
CALL = "LigerLlama4RopeFunction.apply(q, k, turn)"
