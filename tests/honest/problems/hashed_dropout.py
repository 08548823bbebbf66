"""Dropout whose mask is a hash of the element's index and a seed."""

import torch


def reference(x: torch.Tensor, p: float = 0.25, seed: int = 11) -> torch.Tensor:
    index = torch.arange(x.numel(), device=x.device).view(x.shape)
    h = (index + seed) * 1103515245 & 0x7FFFFFFF
    h = (h ^ (h >> 15)) * 48271 & 0x7FFFFFFF
    keep = (h >> 7 & 0xFFFF) >= p * 65536
    return torch.where(keep, x.float() / (1 - p), 0.0).to(x.dtype)


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 4096, "H": 8192}]
