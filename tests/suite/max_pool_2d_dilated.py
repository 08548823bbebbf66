"""Maximum of windows with dilation, of numbers below zero."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, kernel, stride, padding, dilation):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel, stride, padding, dilation)

    def forward(self, x):
        return self.pool(x) * 3.0


def get_inputs():
    return [-1.0 - torch.rand(2, 4, 13, 11)]


def get_init_inputs():
    return [3, 2, 1, 2]
