"""Masked positions become one value."""

import torch


def reference(x: torch.Tensor, mask: torch.Tensor, value: float = -1.0) -> torch.Tensor:
    return x.masked_fill(mask, value)


INPUTS = {"x": "T H", "mask": {"dims": "T H", "dtype": "bool", "low": 0, "high": 2}}
WORKLOADS = [{"T": 4096, "H": 8192}]
