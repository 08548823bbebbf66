"""Inverted residuals: channels widened, filtered one by one and narrowed, each with batch norms of the batch."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, wide, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, wide, 1, bias=False),
                nn.BatchNorm2d(wide),
                nn.ReLU6(inplace=True),
                nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False),
                nn.BatchNorm2d(wide),
                nn.ReLU6(inplace=True),
                nn.Conv2d(wide, width, 1, bias=False),
                nn.BatchNorm2d(width),
            )
            for _ in range(blocks)
        )

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x.mean((2, 3))


def get_inputs():
    return [torch.rand(2, 6, 5, 7)]


def get_init_inputs():
    return [6, 10, 2]
