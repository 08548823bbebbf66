"""Maximum of windows, and where it lies."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel, return_indices=True)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.rand(2, 4, 8, 6)]


def get_init_inputs():
    return [2]
