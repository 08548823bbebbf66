"""Columns scaled and shifted, without gradients."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (x.float() * w.float() + b.float()).to(x.dtype)


INPUTS = {
    "x": {"dims": "T H", "grad": False},
    "w": {"dims": "H", "init": "ones", "role": "parameter", "grad": False},
    "b": {"dims": "H", "init": "zeros", "role": "parameter", "grad": False},
}
WORKLOADS = [{"T": 4096, "H": 4096}]
DTYPES = ["float32"]
