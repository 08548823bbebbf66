"""The total variation distance of two distributions, summed in float32, the mean over the rows."""

import torch


def reference(q: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    return (0.5 * (q - p).abs()).float().sum(-1).mean()


INPUTS = {"q": {"dims": "T V", "init": "softmax"}, "p": {"dims": "T V", "init": "softmax", "grad": False}}
WORKLOADS = [{"T": 4096, "V": 32768}, {"T": 2048, "V": 32000}, {"T": 1024, "V": 16384}]
CALL = "LigerTVDLossFunction.apply(q, p, None, 'batchmean', -100)"
