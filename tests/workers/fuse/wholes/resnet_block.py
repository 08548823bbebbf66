"""A basic block of ResNet with a projection, normalised by what it has learnt (batch normalization as in evaluation)."""

import torch
import torch.nn.functional as F
from torch import nn

NARROW, WIDE, BATCH, HEIGHT, BREADTH = 6, 10, 2, 7, 9


class Model(nn.Module):
    def __init__(self, narrow, wide):
        super().__init__()
        self.conv1 = nn.Conv2d(narrow, wide, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide)
        self.conv2 = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(wide)
        self.downsample = nn.Sequential(nn.Conv2d(narrow, wide, 1, bias=False), nn.BatchNorm2d(wide))
        self.eval()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.downsample(x)
        return F.relu(y)


def get_inputs():
    return [torch.randn(BATCH, NARROW, HEIGHT, BREADTH)]


def get_init_inputs():
    return [NARROW, WIDE]
