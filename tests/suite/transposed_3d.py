"""Transposed convolution in 3 dimensions."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, features):
        super().__init__()
        self.conv = nn.ConvTranspose3d(channels, features, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(1, 6, 3, 4, 5)]


def get_init_inputs():
    return [6, 4]
