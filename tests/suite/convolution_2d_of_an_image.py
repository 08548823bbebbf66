"""Convolution of an image of few channels by a large kernel, with a stride."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, features, kernel, stride, padding):
        super().__init__()
        self.conv = nn.Conv2d(channels, features, kernel, stride=stride, padding=padding)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 3, 27, 30)]


def get_init_inputs():
    return [3, 18, 7, 4, 3]
