"""Transposed convolution in groups of channels."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, features, groups):
        super().__init__()
        self.conv = nn.ConvTranspose2d(channels, features, (3, 4), stride=(2, 3), groups=groups, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 8, 5, 6)]


def get_init_inputs():
    return [8, 12, 4]
