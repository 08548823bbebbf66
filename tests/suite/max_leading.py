"""Maximum over the first dimension."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.amax(0)


def get_inputs():
    return [torch.rand(6, 40, 33)]


def get_init_inputs():
    return []
