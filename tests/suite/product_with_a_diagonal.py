"""A diagonal matrix times another."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.diag(a) @ b


def get_inputs():
    return [torch.rand(17), torch.rand(17, 23)]


def get_init_inputs():
    return []
