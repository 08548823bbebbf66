"""The sum over rows, in float32."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.float().sum(0).to(x.dtype)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 1024}]
