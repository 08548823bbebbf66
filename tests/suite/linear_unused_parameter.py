"""A linear layer beside one that no value depends on."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.unused = nn.Linear(features, 3)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.rand(9, 12)]


def get_init_inputs():
    return [12]
