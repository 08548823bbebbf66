"""A matrix times a column."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(17, 300), torch.rand(300, 1)]


def get_init_inputs():
    return []
