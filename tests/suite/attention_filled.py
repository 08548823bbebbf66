"""Attention under a mask that fills with a number, so that queries without any key see all of them alike."""

import math

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        rows = torch.arange(q.size(-2), device=q.device)[:, None]
        columns = torch.arange(k.size(-2), device=k.device)[None, :]
        return torch.softmax(scores.masked_fill(rows < columns + 5, -1e9), dim=-1) @ v


def get_inputs():
    return [torch.randn(2, 2, 37, 16), torch.randn(2, 2, 29, 16), torch.randn(2, 2, 29, 16)]


def get_init_inputs():
    return []
