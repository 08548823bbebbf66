"""Which elements are positive numbers, as a mask."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.isfinite(x) & (x > 0)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 4096}]
