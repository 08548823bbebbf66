"""The Jensen-Shannon divergence of two distributions given as log-probabilities, the mean over the rows."""

import math

import torch


def reference(q: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    a, b = q.float(), p.float()
    pa, pb = a.exp(), b.exp()
    m = torch.logaddexp(a, b) - math.log(2.0)
    return (0.5 * (pb * (b - m) + pa * (a - m)).sum() / q.shape[0]).to(q.dtype)


INPUTS = {"q": {"dims": "T V", "init": "log_softmax"}, "p": {"dims": "T V", "init": "log_softmax", "grad": False}}
WORKLOADS = [{"T": 4096, "V": 32768}, {"T": 2048, "V": 32000}, {"T": 1024, "V": 16384}]
CALL = "LigerJSDFunction.apply(q, p, None, 0.5, -100)"
