"""A product of few tiles and a long sum, which programs share."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(9, 8300) - 0.5, torch.rand(8300, 11) - 0.5]


def get_init_inputs():
    return []
