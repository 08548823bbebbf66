"""One of six functions by name."""

import torch


def reference(x: torch.Tensor, act: str = "relu") -> torch.Tensor:
    if act == "square":
        return x * x
    if act == "double":
        return x + x
    if act == "negate":
        return -x
    if act == "cube":
        return x * x * x
    if act == "half":
        return x * 0.5
    return torch.relu(x)


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 4096, "H": 4096}]
