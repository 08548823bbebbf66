"""A cell of a gated recurrent unit, written out."""

import torch
from torch import nn

INPUT, HIDDEN, BATCH = 12, 20, 7


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.x2h = nn.Linear(width, 3 * hidden)
        self.h2h = nn.Linear(hidden, 3 * hidden)

    def forward(self, x, h):
        x_reset, x_update, x_new = self.x2h(x).chunk(3, 1)
        h_reset, h_update, h_new = self.h2h(h).chunk(3, 1)
        reset = torch.sigmoid(x_reset + h_reset)
        update = torch.sigmoid(x_update + h_update)
        new = torch.tanh(x_new + reset * h_new)
        return update * h + (1 - update) * new


def get_inputs():
    return [torch.randn(BATCH, INPUT), torch.randn(BATCH, HIDDEN)]


def get_init_inputs():
    return [INPUT, HIDDEN]
