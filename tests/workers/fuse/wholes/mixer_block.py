"""A block of the MLP mixer: an MLP over patches, one over channels."""

import torch
import torch.nn.functional as F
from torch import nn

PATCHES, WIDTH, TOKENS, INNER, BATCH = 9, 16, 12, 20, 3


class Mlp(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Model(nn.Module):
    def __init__(self, patches, width, tokens, inner):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.mlp_tokens = Mlp(patches, tokens)
        self.norm2 = nn.LayerNorm(width)
        self.mlp_channels = Mlp(width, inner)

    def forward(self, x):
        x = x + self.mlp_tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.mlp_channels(self.norm2(x))


def get_inputs():
    return [torch.randn(BATCH, PATCHES, WIDTH)]


def get_init_inputs():
    return [PATCHES, WIDTH, TOKENS, INNER]
