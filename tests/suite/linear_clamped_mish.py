"""Linear layer, scaled, clamped, then mish."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, features):
        super().__init__()
        self.linear = nn.Linear(width, features)

    def forward(self, x):
        y = torch.clamp(self.linear(x) * 2.0, -1.0, 1.0)
        return nn.functional.mish(y) * y


def get_inputs():
    return [torch.rand(13, 37)]


def get_init_inputs():
    return [37, 21]
