"""Total variation distance of two distributions, the mean over rows."""

import torch


def reference(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return 0.5 * (p.float() - q.float()).abs().sum(-1).mean()


INPUTS = {"p": {"dims": "T V", "init": "softmax"}, "q": {"dims": "T V", "init": "softmax", "grad": False}}
WORKLOADS = [{"T": 4096, "V": 32000}]
