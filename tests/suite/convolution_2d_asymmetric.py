"""Convolution with a kernel, padding and dilation that differ by dimension, without bias."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, features):
        super().__init__()
        self.conv = nn.Conv2d(channels, features, (3, 5), stride=(2, 1), padding=(1, 4), dilation=(1, 2), bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 4, 14, 11)]


def get_init_inputs():
    return [4, 6]
