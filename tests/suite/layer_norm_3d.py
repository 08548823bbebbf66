"""Layer norm over all but the first dimension."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.norm = nn.LayerNorm(normalized_shape=shape)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(5, 8, 6, 10)]


def get_init_inputs():
    return [(8, 6, 10)]
