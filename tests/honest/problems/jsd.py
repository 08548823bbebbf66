"""Jensen-Shannon divergence of two distributions given as log probabilities, the mean over rows."""

import torch


def reference(x: torch.Tensor, y: torch.Tensor, beta: float = 0.5) -> torch.Tensor:
    q, p = x.float(), y.float()
    m = torch.log(beta * torch.exp(p) + (1 - beta) * torch.exp(q))
    left = beta * (torch.exp(p) * (p - m)).sum()
    right = (1 - beta) * (torch.exp(q) * (q - m)).sum()
    return (left + right) / x.shape[0]


INPUTS = {"x": {"dims": "T V", "init": "log_softmax"}, "y": {"dims": "T V", "init": "log_softmax", "grad": False}}
WORKLOADS = [{"T": 4096, "V": 32000}]
