"""Rows of which no element is too large; the others become zero."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.where((x.abs() > 2.5).any(dim=-1, keepdim=True), 0.0, x)


def get_inputs():
    return [torch.randn(40, 70)]


def get_init_inputs():
    return []
