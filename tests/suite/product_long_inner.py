"""A product whose sum is long."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(5, 700), torch.rand(700, 7)]


def get_init_inputs():
    return []
