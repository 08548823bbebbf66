"""RMS norm of each head's queries or keys."""

import torch


def reference(x: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    h = x.float()
    return (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


INPUTS = {"x": "B N S D"}
WORKLOADS = [{"B": 4, "N": 32, "S": 2048, "D": 128}]
