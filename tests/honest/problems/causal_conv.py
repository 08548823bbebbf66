"""Causal depthwise convolution with four taps."""

import torch
import torch.nn.functional as F


def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    channels = x.shape[1]
    return F.conv1d(F.pad(x.float(), (3, 0)), w.float()[:, None], groups=channels).to(x.dtype)


INPUTS = {"x": "B C L", "w": {"dims": "C 4", "init": "normal", "role": "parameter"}}
WORKLOADS = [{"B": 8, "C": 1024, "L": 2048}]
