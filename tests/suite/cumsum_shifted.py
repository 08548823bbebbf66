"""Sums of what came before, by a zero in front."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        start = torch.zeros_like(x.select(self.dim, 0).unsqueeze(self.dim))
        return torch.cumsum(torch.cat((start, x), dim=self.dim), dim=self.dim)[:, :-1]


def get_inputs():
    return [torch.rand(12, 100)]


def get_init_inputs():
    return [1]
