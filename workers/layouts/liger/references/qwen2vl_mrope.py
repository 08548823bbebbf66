"""Rotary embedding of queries and keys, whose angles come from time, height and width in three sections of a head's half."""

import torch


def sections(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((x[0, ..., :16], x[1, ..., 16:40], x[2, ..., 40:64]), -1).unsqueeze(1)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def reference(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    c, s = sections(cos), sections(sin)
    return rotate(q, c, s), rotate(k, c, s)


INPUTS = {
    "q": "B Q S 128",
    "k": "B K S 128",
    "cos": {"dims": "3 B S 128", "grad": False},
    "sin": {"dims": "3 B S 128", "grad": False},
}
WORKLOADS = [
    {"B": 4, "Q": 32, "K": 8, "S": 4096},
    {"B": 1, "Q": 32, "K": 8, "S": 4096},
    {"B": 1, "Q": 32, "K": 8, "S": 1024},
]
CALL = "LigerQwen2VLMRopeFunction.apply(q, k, cos, sin, [16, 24, 24])"
