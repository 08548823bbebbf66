"""The Kullback-Leibler divergence of log-probabilities from log-probabilities in float32, the sum."""

import torch


def reference(y_pred: torch.Tensor, y_true: torch.Tensor, eps: float = 1e-10) -> torch.Tensor:
    target = y_true.float()
    return (target.exp() * (target - y_pred.float())).sum()


INPUTS = {
    "y_pred": {"dims": "T V", "init": "log_softmax"},
    "y_true": {"dims": "T V", "init": "log_softmax", "grad": False},
}
WORKLOADS = [{"T": 4096, "V": 32768}, {"T": 2048, "V": 32000}, {"T": 1024, "V": 16384}]
CALL = "LigerKLDivLossFunction.apply(y_pred, y_true, 'sum', True, eps)"
