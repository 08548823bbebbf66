"""Convolution in 1 dimension, with stride and dilation."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, features, kernel, stride, dilation):
        super().__init__()
        self.conv = nn.Conv1d(channels, features, kernel, stride=stride, dilation=dilation)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 5, 61)]


def get_init_inputs():
    return [5, 7, 3, 2, 3]
