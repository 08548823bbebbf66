"""Softsign."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x / (1 + torch.abs(x))


def get_inputs():
    return [torch.randn(16, 300)]


def get_init_inputs():
    return []
