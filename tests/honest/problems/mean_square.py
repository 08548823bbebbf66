"""The mean square of all elements, in float32."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.float().square().mean()


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 4096, "H": 8192}]
