"""Transposed convolution in 2 dimensions, and a bias, clamped."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, features, stride):
        super().__init__()
        self.conv = nn.ConvTranspose2d(channels, features, 3, stride=stride, padding=1, output_padding=1)
        self.bias = nn.Parameter(torch.randn(features, 1, 1))

    def forward(self, x):
        return torch.clamp(self.conv(x) + self.bias, 0.0, 1.0)


def get_inputs():
    return [torch.randn(2, 18, 6, 7)]


def get_init_inputs():
    return [18, 10, 2]
