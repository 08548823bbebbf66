"""Leaky ReLU with a slope of the model."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return F.leaky_relu(x, negative_slope=self.slope)


def get_inputs():
    return [torch.randn(16, 300)]


def get_init_inputs():
    return [0.05]
