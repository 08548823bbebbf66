"""Logits of a large batch, scaled."""

import torch


def reference(x: torch.Tensor, scale: float = 0.5) -> torch.Tensor:
    return torch.exp(-(x.float() * scale).abs()).to(x.dtype)


INPUTS = {"x": {"dims": "T V", "grad": False}}
WORKLOADS = [{"T": 65536, "V": 50304}]
DTYPES = ["bfloat16"]
