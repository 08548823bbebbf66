"""The product of two square matrices."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(33, 33), torch.rand(33, 33)]


def get_init_inputs():
    return []
