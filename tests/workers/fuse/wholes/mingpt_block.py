"""A block of MinGPT: causal attention written out, GELU by tanh."""

import math

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, BATCH, LENGTH = 24, 2, 3, 10


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.heads, self.width = heads, width

    def forward(self, x, bias):
        batch, length, width = x.size()
        q, k, v = self.c_attn(x).split(self.width, dim=2)
        k = k.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        q = q.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        v = v.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = F.softmax(scores.masked_fill(bias == 0, float("-inf")), dim=-1)
        y = (scores @ v).transpose(1, 2).contiguous().view(batch, length, width)
        return self.c_proj(y)


class GELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)
        self.act = GELU()

    def forward(self, x, bias):
        x = x + self.attn(self.ln_1(x), bias)
        return x + self.c_proj(self.act(self.c_fc(self.ln_2(x))))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), torch.tril(torch.ones(LENGTH, LENGTH)).bool()]


def get_init_inputs():
    return [WIDTH, HEADS]
