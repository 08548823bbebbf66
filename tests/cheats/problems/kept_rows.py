"""Rows that a mask does not keep become zero."""

import torch


def reference(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    return torch.where(keep[:, None], x, 0.0)


INPUTS = {"x": {"dims": "T H", "grad": False}, "keep": {"dims": "T", "dtype": "bool"}}
WORKLOADS = [{"T": 1024, "H": 1024}]
