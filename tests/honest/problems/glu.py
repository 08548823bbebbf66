"""A gated linear unit with the logistic function, computed in float32."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.float() * torch.sigmoid(b.float())).to(a.dtype)


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 14336}]
