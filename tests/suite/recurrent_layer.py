"""An LSTM over few steps, whose features stand side by side in a row."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, steps, features, hidden):
        super().__init__()
        self.steps = steps
        self.layer = nn.LSTM(features, hidden, batch_first=True)

    def forward(self, x, hidden, cell):
        results, _ = self.layer(x.unflatten(1, (self.steps, -1)), (hidden, cell))
        return results[:, -1]


def get_inputs():
    return [torch.randn(5, 24), torch.randn(1, 5, 12), torch.randn(1, 5, 12)]


def get_init_inputs():
    return [3, 8, 12]
