"""Two activations and their sum."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, y):
        return F.mish(x) + F.hardswish(y)


def get_inputs():
    return [torch.randn(16, 300), torch.randn(16, 300)]


def get_init_inputs():
    return []
