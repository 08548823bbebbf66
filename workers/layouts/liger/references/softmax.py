"""Softmax over the last dimension."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 16384, "H": 8192}, {"T": 8192, "H": 4096}, {"T": 2048, "H": 4096}]
CALL = "LigerSoftmaxFunction.apply(x)"
