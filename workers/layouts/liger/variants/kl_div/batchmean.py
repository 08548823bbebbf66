"""The Kullback-Leibler divergence of log-probabilities from probabilities in float32, the mean over the rows."""

import torch


def reference(y_pred: torch.Tensor, y_true: torch.Tensor, eps: float = 1e-10) -> torch.Tensor:
    target = y_true.float()
    return (target * (target.clamp(min=eps).log() - y_pred.float())).sum() / y_true.shape[0]


INPUTS = {"y_pred": {"dims": "T V", "init": "log_softmax"}, "y_true": {"dims": "T V", "init": "softmax", "grad": False}}
WORKLOADS = [{"T": 4096, "V": 32768}, {"T": 2048, "V": 32000}, {"T": 1024, "V": 16384}]
CALL = "LigerKLDivLossFunction.apply(y_pred, y_true, 'batchmean', False, eps)"
