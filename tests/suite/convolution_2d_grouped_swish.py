"""Convolution in groups of channels, and swish of it."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, features, groups):
        super().__init__()
        self.conv = nn.Conv2d(channels, features, 3, stride=2, padding=1, groups=groups)

    def forward(self, x):
        y = self.conv(x)
        return y * torch.sigmoid(y)


def get_inputs():
    return [torch.randn(3, 12, 13, 8)]


def get_init_inputs():
    return [12, 18, 3]
