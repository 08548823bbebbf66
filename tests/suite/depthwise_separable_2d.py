"""Convolution of each channel by itself, then by a kernel of one element."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, features):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=2, dilation=2, groups=channels, bias=False)
        self.pointwise = nn.Conv2d(channels, features, 1)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


def get_inputs():
    return [torch.randn(2, 10, 9, 12)]


def get_init_inputs():
    return [10, 17]
