"""Rotary embedding of queries and keys, the halves of a head's row as pairs; of cos and sin the first half counts."""

import torch


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def reference(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    half = q.shape[-1] // 2
    c, s = cos[..., :half].unsqueeze(1), sin[..., :half].unsqueeze(1)
    return rotate(q, c, s), rotate(k, c, s)


INPUTS = {
    "q": "B Q S D",
    "k": "B K S D",
    "cos": {"dims": "1 S D", "grad": False},
    "sin": {"dims": "1 S D", "grad": False},
}
WORKLOADS = [
    {"B": 4, "Q": 32, "K": 8, "S": 4096, "D": 128},
    {"B": 1, "Q": 32, "K": 8, "S": 4096, "D": 128},
    {"B": 1, "Q": 32, "K": 8, "S": 1024, "D": 128},
]
CALL = "LigerRopeFunction.apply(q, k, cos, sin)"
