"""GroupNorm of eight channels in two groups."""

import torch
import torch.nn.functional as F


def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return F.group_norm(x.float(), 2, w.float(), b.float(), eps).to(x.dtype)


INPUTS = {
    "x": "N 8 L",
    "w": {"dims": "8", "init": "ones", "role": "parameter"},
    "b": {"dims": "8", "init": "zeros", "role": "parameter"},
}
WORKLOADS = [{"N": 64, "L": 4096}]
