"""PolyNorm: a weighted sum of the normalised first three powers."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    h = x.float()
    y = b.float()
    for power in (1, 2, 3):
        p = h**power
        y = y + w[3 - power].float() * p * torch.rsqrt(p.square().mean(-1, keepdim=True) + eps)
    return y.to(x.dtype)


INPUTS = {
    "x": "T H",
    "w": {"dims": "3", "init": "ones", "role": "parameter"},
    "b": {"dims": "1", "init": "ones", "role": "parameter"},
}
WORKLOADS = [{"T": 4096, "H": 4096}]
