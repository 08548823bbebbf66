"""Scores of heads that are put together with a batch that follows the tokens."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, q, k):
        tokens, batch, features = q.shape
        q, k = (x.reshape(tokens, batch * self.heads, features // self.heads).transpose(0, 1) for x in (q, k))
        return torch.tanh(q @ k.transpose(1, 2))


def get_inputs():
    return [torch.rand(7, 3, 12), torch.rand(7, 3, 12)]


def get_init_inputs():
    return [4]
