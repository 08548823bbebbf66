"""Convolution, then a mean whose border does not count."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3)
        self.pool = nn.AvgPool2d(3, padding=1, count_include_pad=False)

    def forward(self, x):
        return self.pool(self.conv(x))


def get_inputs():
    return [torch.rand(2, 4, 8, 6)]


def get_init_inputs():
    return [4]
