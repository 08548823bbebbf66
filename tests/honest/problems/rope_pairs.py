"""Rotary embedding of neighbouring pairs, with an angle for each."""

import torch


def reference(x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    even, odd = x[..., 0], x[..., 1]
    c, s = angle.cos()[:, None, :], angle.sin()[:, None, :]
    return torch.stack((even * c - odd * s, even * s + odd * c), -1)


INPUTS = {"x": "T N C 2", "angle": {"dims": "T C", "grad": False, "init": "uniform"}}
WORKLOADS = [{"T": 1024, "N": 16, "C": 64}]
DTYPES = ["float32"]
