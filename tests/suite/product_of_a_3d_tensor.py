"""Each matrix of a tensor times one matrix."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(3, 11, 23), torch.rand(23, 19)]


def get_init_inputs():
    return []
