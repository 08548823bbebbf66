"""The products of all pairs of rows of two matrices, and the sum of squares of each row of the first."""

import torch


def reference(x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    h = x.float()
    return (h @ z.float().t()).to(x.dtype), h.pow(2).sum(-1)


INPUTS = {"x": {"dims": "T D", "grad": False}, "z": {"dims": "S D", "grad": False}}
WORKLOADS = [{"T": 4096, "S": 2048, "D": 64}]
