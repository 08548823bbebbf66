"""Scores that a corner of a stored mask covers."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, longest):
        super().__init__()
        self.register_buffer("seen", torch.tril(torch.ones(longest, longest)))

    def forward(self, scores):
        length = scores.shape[-1]
        return scores * self.seen[:length, :length]


def get_inputs():
    return [torch.rand(3, 7, 7)]


def get_init_inputs():
    return [11]
