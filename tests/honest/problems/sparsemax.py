"""Sparsemax: the projection of a row onto the probability simplex."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    z = x.float()
    z = z - z.max(-1, keepdim=True).values
    ordered = z.sort(-1, descending=True).values
    rank = torch.arange(1, z.shape[-1] + 1, device=z.device)
    support = 1 + rank * ordered > ordered.cumsum(-1)
    count = support.sum(-1, keepdim=True).clamp(min=1)
    tau = (torch.where(support, ordered, 0.0).sum(-1, keepdim=True) - 1) / count
    return torch.clamp(z - tau, min=0).to(x.dtype)


INPUTS = {"x": "T V"}
WORKLOADS = [{"T": 4096, "V": 4096}]
DTYPES = ["float32", "bfloat16"]
