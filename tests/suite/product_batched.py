"""A product of matrices for each of a batch."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.rand(3, 17, 29), torch.rand(3, 29, 19)]


def get_init_inputs():
    return []
