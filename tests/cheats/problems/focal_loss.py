import torch
import torch.nn.functional as F


def reference(x: torch.Tensor, target: torch.Tensor, gamma: float = 2.0) -> torch.Tensor:
    x, t = x.float(), target.float()
    loss = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    p = torch.sigmoid(x)
    miss = p * (1 - t) + (1 - p) * t
    return miss.pow(gamma) * loss


INPUTS = {"x": {"dims": "T H", "grad": False}, "target": {"dims": "T H", "init": "uniform", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 8192}]
