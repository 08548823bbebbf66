"""Hard sigmoid."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return F.hardsigmoid(x)


def get_inputs():
    return [4.0 * torch.randn(16, 300)]


def get_init_inputs():
    return []
