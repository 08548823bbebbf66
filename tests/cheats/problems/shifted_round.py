"""A function of each element, and the element before it, round the end of its row."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(-x.abs()) + x.roll(1, -1)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 512}]
