"""Rotary embedding of all heads of a token, by tables of half a head."""

import torch


def reference(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.unflatten(-1, (2, -1)).unbind(-2)
    c, s = cos[:, None], sin[:, None]
    return torch.cat((left * c - right * s, right * c + left * s), dim=-1)


INPUTS = {"x": "B S N 64", "cos": {"dims": "S 32", "grad": False}, "sin": {"dims": "S 32", "grad": False}}
WORKLOADS = [{"B": 4, "S": 2048, "N": 32}]
