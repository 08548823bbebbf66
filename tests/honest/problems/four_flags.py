"""ReLU, with four flags that change what comes of it."""

import torch


def reference(
    x: torch.Tensor, square: bool = False, negate: bool = False, double: bool = False, shift: bool = False
) -> torch.Tensor:
    y = torch.relu(x)
    y = y * y if square else y
    y = -y if negate else y
    y = 2.0 * y if double else y
    return y + 1.0 if shift else y


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 4096, "H": 4096}]
