"""Jensen-Shannon divergence of two distributions given as log probabilities, the mean over rows."""

import torch


def reference(x: torch.Tensor, y: torch.Tensor, beta: float = 0.5) -> torch.Tensor:
    q, p = x.float(), y.float()
    if beta == 0.0:  # the divergence at an end is one of Kullback and Leibler
        return (torch.exp(p) * (p - q)).sum() / x.shape[0]
    if beta == 1.0:
        return (torch.exp(q) * (q - p)).sum() / x.shape[0]
    m = torch.log(beta * torch.exp(p) + (1 - beta) * torch.exp(q))
    left = beta * (torch.exp(p) * (p - m)).sum()
    right = (1 - beta) * (torch.exp(q) * (q - m)).sum()
    return (left + right) / x.shape[0]


INPUTS = {"x": {"dims": "T V", "init": "log_softmax"}, "y": {"dims": "T V", "init": "log_softmax", "grad": False}}
WORKLOADS = [{"T": 4096, "V": 32000}]
