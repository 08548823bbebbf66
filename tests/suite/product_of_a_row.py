"""One row times a matrix."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(1, 70), torch.rand(70, 33)]


def get_init_inputs():
    return []
