"""Convolution of each channel by itself."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, kernel, stride, padding):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel, stride=stride, padding=padding, groups=channels)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 6, 15, 12)]


def get_init_inputs():
    return [6, 3, 2, 1]
