import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x)


INPUTS = {"x": "B T H"}
WORKLOADS = [{"B": 8, "T": 2048, "H": 4096}]
