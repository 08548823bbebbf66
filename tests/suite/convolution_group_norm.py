"""Convolution, group norm, scaled."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, features, groups):
        super().__init__()
        self.conv = nn.Conv2d(channels, features, 3)
        self.norm = nn.GroupNorm(groups, features, affine=False)

    def forward(self, x):
        return self.norm(self.conv(x)) * 2.0


def get_inputs():
    return [torch.randn(2, 5, 10, 9)]


def get_init_inputs():
    return [5, 12, 3]
