"""A minimum over the depth of a convolution, then a softmax over its channels."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, features):
        super().__init__()
        self.conv = nn.Conv3d(channels, features, 3)

    def forward(self, x):
        return self.conv(x).amin(dim=2).softmax(dim=1)


def get_inputs():
    return [torch.rand(2, 3, 5, 6, 7)]


def get_init_inputs():
    return [3, 6]
