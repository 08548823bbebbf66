"""Residuals of features, softly assigned to clusters by all of a batch's rows, summed for each image."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, features, clusters):
        super().__init__()
        self.assignment = nn.Linear(features, clusters + 2)
        self.norm = nn.BatchNorm1d(clusters + 2)
        self.centres = nn.Parameter(torch.randn(1, features, clusters))

    def forward(self, x):
        images, descriptors, features = x.shape
        rows = x.reshape(-1, features)
        shares = F.softmax(self.norm(self.assignment(rows)), dim=1)[:, : self.centres.shape[2]]
        shares = shares.reshape(images, descriptors, -1)
        summed = torch.matmul(shares.transpose(1, 2), x).transpose(1, 2)
        return F.normalize(summed - shares.sum(1, keepdim=True) * self.centres)


def get_inputs():
    return [torch.rand(3, 7, 12)]


def get_init_inputs():
    return [12, 5]
