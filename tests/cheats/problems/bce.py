"""Binary cross entropy of probabilities, by element."""

import torch
import torch.nn.functional as F


def reference(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy(p.float(), t.float(), reduction="none")


INPUTS = {
    "p": {"dims": "T H", "init": "uniform", "grad": False},
    "t": {"dims": "T H", "init": "uniform", "grad": False},
}
WORKLOADS = [{"T": 4096, "H": 8192}]
