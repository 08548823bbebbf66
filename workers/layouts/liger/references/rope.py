"""Rotary embedding of queries and keys, the halves of a head's row as pairs."""

import torch


def rotate(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def reference(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    c, s = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * c + rotate(q) * s, k * c + rotate(k) * s


INPUTS = {
    "q": "B Q S D",
    "k": "B K S D",
    "cos": {"dims": "1 S D", "grad": False},
    "sin": {"dims": "1 S D", "grad": False},
}
WORKLOADS = [{"B": 4, "Q": 32, "K": 8, "S": 4096, "D": 128}, {"B": 2, "Q": 16, "K": 16, "S": 2048, "D": 64}]
CALL = "LigerRopeFunction.apply(q, k, cos, sin)"
