"""Magnitudes times a weight for each column."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x.abs() * w


INPUTS = {"x": {"dims": "T H", "grad": False}, "w": {"dims": "H", "init": "ones", "role": "parameter"}}
WORKLOADS = [{"T": 4096, "H": 4096}]
