"""Mean squared error, in float32."""

import torch


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x.float() - y.float()).square().mean()


INPUTS = {"x": "T H", "y": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 8192}]
