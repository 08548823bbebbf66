"""The largest number of each column."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.amax(0)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 1024}]
DTYPES = ["float32"]
