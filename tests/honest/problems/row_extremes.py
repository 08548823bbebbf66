"""Smallest, largest and mean of every row, in float32."""

import torch


def reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    h = x.float()
    return h.amin(-1), h.amax(-1), h.mean(-1)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 8192}]
