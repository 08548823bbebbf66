"""A tall matrix times a flat one."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(150, 3), torch.rand(3, 70)]


def get_init_inputs():
    return []
