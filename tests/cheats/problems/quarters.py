"""Whole numbers divided by four, towards zero, times a weight."""

import torch


def reference(x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return torch.div(x - 4000, 4, rounding_mode="trunc") * 1.0 + shift


INPUTS = {"x": {"dims": "T H", "dtype": "int64", "low": 0, "high": 8000}, "shift": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 1024}]
DTYPES = ["float32"]
