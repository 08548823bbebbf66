"""A function of each element, twice where a flag says so."""

import torch


def reference(x: torch.Tensor, double: bool = False) -> torch.Tensor:
    y = torch.exp(-x.abs())
    return 2 * y if double else y


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 4096}]
