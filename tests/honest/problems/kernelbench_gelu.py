"""A KernelBench problem: the exact GELU."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(16, 300)]


def get_init_inputs() -> list[int]:
    return []
