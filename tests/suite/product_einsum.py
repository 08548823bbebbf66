"""A tensor of four dimensions times a matrix."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.einsum("bijl,lk->bijk", a, b)


def get_inputs():
    return [torch.rand(2, 5, 7, 13), torch.rand(13, 11)]


def get_init_inputs():
    return []
