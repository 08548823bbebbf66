"""A KernelBench problem: an affine map by stored statistics."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)
        self.bias = nn.Parameter(torch.rand(features))
        self.register_buffer("mean", torch.rand(features))
        self.register_buffer("var", torch.rand(features) + 0.5)
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean) * torch.rsqrt(self.var + self.eps) * self.weight + self.bias


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(16, 200)]


def get_init_inputs() -> list:
    return [200, 1e-5]
