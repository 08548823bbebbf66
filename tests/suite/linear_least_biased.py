"""The least of each row of a normalized linear layer, to which a bias along another dimension is added."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_features, out_features, groups, bias_shape):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.GroupNorm(groups, out_features)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        least = torch.min(self.norm(self.linear(x)), dim=1, keepdim=True)[0]
        return least + self.bias


def get_inputs():
    return [torch.randn(9, 24)]


def get_init_inputs():
    return [24, 32, 4, (1, 32, 1, 1)]
