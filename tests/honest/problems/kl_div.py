"""Kullback-Leibler divergence of log probabilities from probabilities, the mean over rows."""

import torch
import torch.nn.functional as F


def reference(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.kl_div(x.float(), target.float(), reduction="batchmean")


INPUTS = {"x": {"dims": "T V", "init": "log_softmax"}, "target": {"dims": "T V", "init": "softmax", "grad": False}}
WORKLOADS = [{"T": 4096, "V": 32000}]
