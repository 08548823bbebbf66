"""A cumulative sum of rows that begin with a zero, in place of their last number."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        first = torch.zeros_like(x[:, :1])
        return torch.cat((first, x), dim=1).narrow(1, 0, x.shape[1]).cumsum(dim=1)


def get_inputs():
    return [torch.rand(5, 33)]


def get_init_inputs():
    return []
