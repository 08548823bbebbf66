"""Group norm of images."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, groups):
        super().__init__()
        self.norm = nn.GroupNorm(num_groups=groups, num_channels=features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(5, 12, 7, 11)]


def get_init_inputs():
    return [12, 4]
