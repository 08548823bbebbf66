"""Channels of two convolutions side by side."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, narrow, wide):
        super().__init__()
        self.point = nn.Conv2d(channels, narrow, 1)
        self.square = nn.Conv2d(channels, wide, 3, padding=1)

    def forward(self, x):
        return torch.cat((self.point(x).relu(), self.square(x)), dim=1)


def get_inputs():
    return [torch.rand(2, 4, 6, 7)]


def get_init_inputs():
    return [4, 3, 5]
