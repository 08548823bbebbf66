"""Causal attention by hand."""

import math

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, k, v):
        seen = torch.tril(torch.ones(q.size(-2), q.size(-2), device=q.device))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(q.size(-1)))
        scores = scores.masked_fill(seen == 0, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    return [torch.randn(1, 2, 75, 16), torch.randn(1, 2, 75, 16), torch.randn(1, 2, 75, 16)]


def get_init_inputs():
    return []
