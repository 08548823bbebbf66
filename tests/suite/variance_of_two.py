"""Variance over the first and the last dimension."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.var(x, dim=(0, 2))


def get_inputs():
    return [torch.rand(6, 40, 33)]


def get_init_inputs():
    return []
