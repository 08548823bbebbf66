"""Convolution in 2 dimensions, ReLU, and a bias of each channel."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, features, kernel):
        super().__init__()
        self.conv = nn.Conv2d(channels, features, kernel, padding=1)
        self.bias = nn.Parameter(torch.randn(features, 1, 1))

    def forward(self, x):
        return torch.relu(self.conv(x)) + self.bias


def get_inputs():
    return [torch.randn(2, 35, 9, 11)]


def get_init_inputs():
    return [35, 20, 3]
