"""Linear layer, group norm, hard tanh."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, features, groups):
        super().__init__()
        self.linear = nn.Linear(width, features)
        self.norm = nn.GroupNorm(groups, features)

    def forward(self, x):
        return nn.functional.hardtanh(self.norm(self.linear(x)))


def get_inputs():
    return [torch.rand(13, 37)]


def get_init_inputs():
    return [37, 24, 4]
