"""A row scaled and shifted by vectors, and by a number."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, alpha: float = 0.5) -> torch.Tensor:
    return alpha * x * w + b


INPUTS = {
    "x": "T H",
    "w": {"dims": "H", "init": "ones", "role": "parameter"},
    "b": {"dims": "H", "init": "zeros", "role": "parameter"},
}
WORKLOADS = [{"T": 8192, "H": 4096}]
