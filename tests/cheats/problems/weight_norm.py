"""Rows of a weight of a length of their own."""

import torch


def reference(v: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    return v * (g / v.norm(dim=1))[:, None]


INPUTS = {
    "v": {"dims": "N K", "role": "parameter", "grad": False},
    "g": {"dims": "N", "init": "ones", "role": "parameter", "grad": False},
}
WORKLOADS = [{"N": 4096, "K": 4096}]
DTYPES = ["float32"]
