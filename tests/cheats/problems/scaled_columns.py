"""A function of scaled columns; no gradient of the scale is asked for."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.exp(-(x * w).abs())


INPUTS = {"x": {"dims": "T H", "grad": False}, "w": {"dims": "H", "init": "ones", "role": "parameter", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 4096}]
