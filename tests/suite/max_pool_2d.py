"""Maximum of windows in 2 dimensions."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, kernel, stride, padding):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel_size=kernel, stride=stride, padding=padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.rand(3, 4, 10, 14)]


def get_init_inputs():
    return [3, 2, 1]
