"""Convolution in 3 dimensions, GELU, scaled by a number for each channel."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, features, kernel):
        super().__init__()
        self.conv = nn.Conv3d(channels, features, kernel, stride=(1, 2, 2), padding=1)
        self.scale = nn.Parameter(torch.randn(features, 1, 1, 1))

    def forward(self, x):
        return nn.functional.gelu(self.conv(x)) * self.scale


def get_inputs():
    return [torch.randn(2, 3, 5, 8, 7)]


def get_init_inputs():
    return [3, 6, 3]
