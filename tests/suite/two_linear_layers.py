"""Two linear layers with ReLU between them."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, hidden, features):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, features)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def get_inputs():
    return [torch.rand(13, 37)]


def get_init_inputs():
    return [37, 50, 21]
