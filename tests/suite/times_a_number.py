"""A matrix times a number."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, s: float):
        return a * s


def get_inputs():
    return [torch.rand(48, 100), 3.14]


def get_init_inputs():
    return []
