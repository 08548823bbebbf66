"""Whether any element of a row is above a bound, and whether all are."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        above = x > 0.9
        return above.any(dim=-1), above.all(-1, keepdim=True)


def get_inputs():
    return [torch.rand(12, 5) * 1.5]


def get_init_inputs():
    return []
