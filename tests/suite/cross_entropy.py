"""Cross-entropy of class numbers."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, predictions, targets):
        return F.cross_entropy(predictions, targets)


def get_inputs():
    return [torch.randn(24, 70), torch.randint(0, 70, (24,))]


def get_init_inputs():
    return []
