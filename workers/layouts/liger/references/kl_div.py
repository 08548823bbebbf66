"""The Kullback-Leibler divergence of log-probabilities from log-probabilities in float32, the mean over the rows."""

import torch


def reference(q: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.kl_div(q.float(), p.float(), log_target=True, reduction="batchmean")


INPUTS = {"q": {"dims": "T V", "init": "log_softmax"}, "p": {"dims": "T V", "init": "log_softmax", "grad": False}}
WORKLOADS = [{"T": 4096, "V": 32768}, {"T": 2048, "V": 32000}, {"T": 1024, "V": 16384}]
CALL = "LigerKLDivLossFunction.apply(q, p, 'batchmean', True, 1e-10)"
