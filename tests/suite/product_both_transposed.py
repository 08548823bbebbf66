"""The product of two transposed matrices."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a.T, b.T)


def get_inputs():
    return [torch.rand(29, 17), torch.rand(19, 29)]


def get_init_inputs():
    return []
