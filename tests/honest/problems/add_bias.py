"""A bias added to every row."""

import torch


def reference(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return x + b


INPUTS = {"x": "T H", "b": {"dims": "H", "init": "zeros", "role": "parameter"}}
WORKLOADS = [{"T": 4096, "H": 8192}]
