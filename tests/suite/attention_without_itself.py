"""Attention to the tokens before; the first has none and is NaN."""

import math

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, k, v):
        place = torch.arange(q.size(-2), device=q.device)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(place[:, None] <= place[None, :], float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    return [torch.randn(1, 2, 70, 16), torch.randn(1, 2, 70, 16), torch.randn(1, 2, 70, 16)]


def get_init_inputs():
    return []
