"""Transposed convolution in 1 dimension, with dilation."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, features):
        super().__init__()
        self.conv = nn.ConvTranspose1d(channels, features, 3, stride=2, padding=1, dilation=2)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 9, 31)]


def get_init_inputs():
    return [9, 5]
