"""Causal attention of heads that share keys and values."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def get_inputs():
    return [torch.randn(2, 6, 37, 16), torch.randn(2, 2, 37, 16), torch.randn(2, 2, 37, 16)]


def get_init_inputs():
    return []
