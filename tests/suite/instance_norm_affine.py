"""Instance norm of images with weight and bias."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.InstanceNorm2d(num_features=features, affine=True)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(5, 9, 7, 11)]


def get_init_inputs():
    return [9]
