"""Attention of a model that is in float16 alone."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def get_inputs():
    return [torch.rand(2, 2, 10, 16, dtype=torch.float16) for _ in range(3)]


def get_init_inputs():
    return []
