"""A KernelBench problem: a scaled ReLU with a learned scale."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * self.scale


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(16, 256)]


def get_init_inputs() -> list[int]:
    return [256]
