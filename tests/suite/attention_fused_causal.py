"""Causal attention as torch's own function."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)


def get_inputs():
    return [torch.randn(2, 2, 37, 16), torch.randn(2, 2, 37, 16), torch.randn(2, 2, 37, 16)]


def get_init_inputs():
    return []
