"""Elements times zero or one."""

import torch


def reference(x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    return x * kept.to(x.dtype)


INPUTS = {"x": {"dims": "T H", "grad": False}, "kept": {"dims": "T H", "dtype": "bool"}}
WORKLOADS = [{"T": 4096, "H": 4096}]
