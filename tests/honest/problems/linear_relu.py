"""A linear layer with bias and ReLU, without gradients."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(x.float() @ w.float().t() + b.float()).to(x.dtype)


INPUTS = {
    "x": {"dims": "M K", "grad": False},
    "w": {"dims": "N K", "grad": False},
    "b": {"dims": "N", "grad": False},
}
WORKLOADS = [{"M": 2048, "K": 2048, "N": 2048}]
