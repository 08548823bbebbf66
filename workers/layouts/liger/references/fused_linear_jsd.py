"""The Jensen-Shannon divergence of the softmax of two linear layers, the mean over the rows."""

import math

import torch


def reference(x: torch.Tensor, w: torch.Tensor, x_teacher: torch.Tensor, w_teacher: torch.Tensor) -> torch.Tensor:
    a = (x @ w.t()).float().log_softmax(-1)
    b = (x_teacher @ w_teacher.t()).float().log_softmax(-1)
    m = torch.logaddexp(a, b) - math.log(2.0)
    return 0.5 * (b.exp() * (b - m) + a.exp() * (a - m)).sum() / x.shape[0]


INPUTS = {
    "x": "T H",
    "w": {"dims": "V H", "role": "parameter"},
    "x_teacher": {"dims": "T K", "grad": False},
    "w_teacher": {"dims": "V K", "grad": False},
}
WORKLOADS = [
    {"T": 4096, "H": 4096, "K": 4096, "V": 128256},
    {"T": 4096, "H": 2048, "K": 4096, "V": 32000},
    {"T": 2048, "H": 2048, "K": 4096, "V": 32000},
]
CALL = "LigerFusedLinearJSDFunction.apply(x, w, x_teacher, w_teacher, None, 0.5, -100, 1.0)"
