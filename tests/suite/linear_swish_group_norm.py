"""A group norm of a swish with a bias after a linear layer, whose backward computes again what forward stored."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inputs, outputs, groups):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.bias = nn.Parameter(torch.randn(outputs))
        self.norm = nn.GroupNorm(groups, outputs)

    def forward(self, x):
        x = self.linear(x)
        return self.norm(torch.sigmoid(x) * x + self.bias)


def get_inputs():
    return [torch.rand(20, 16)]


def get_init_inputs():
    return [16, 24, 4]
