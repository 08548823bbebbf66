"""Kullback-Leibler divergence of a linear layer's rows under a soft cap from other logits."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.head = nn.Linear(width, classes)

    def forward(self, x, logits):
        own = torch.log_softmax(30 * torch.tanh(self.head(x) / 30), dim=-1)
        return F.kl_div(own, torch.log_softmax(logits, dim=-1), reduction="batchmean", log_target=True)


def get_inputs():
    return [torch.randn(24, 37), torch.randn(24, 70)]


def get_init_inputs():
    return [37, 70]
