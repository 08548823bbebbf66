"""The Kullback-Leibler divergence of a linear layer's softmax from given distributions, the mean over the rows."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, p: torch.Tensor, eps: float = 1e-10) -> torch.Tensor:
    q, t = (x @ w.t()).float().log_softmax(-1), p.float()
    return (t * (t.clamp(min=eps).log() - q)).sum() / x.shape[0]


INPUTS = {
    "x": "T H",
    "w": {"dims": "V H", "role": "parameter"},
    "p": {"dims": "T V", "init": "softmax", "grad": False},
}
WORKLOADS = [
    {"T": 4096, "H": 4096, "V": 128256},
    {"T": 4096, "H": 4096, "V": 32000},
    {"T": 2048, "H": 2048, "V": 32000},
]
CALL = "LigerFusedLinearKLDivFunction.apply(x, w, p, None, 'batchmean', -100, 1.0, eps)"
