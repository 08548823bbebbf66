"""Sigmoid."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x)


def get_inputs():
    return [torch.rand(16, 300)]


def get_init_inputs():
    return []
