"""The product of a transposed matrix and another."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a.T, b)


def get_inputs():
    return [torch.rand(29, 17), torch.rand(29, 19)]


def get_init_inputs():
    return []
