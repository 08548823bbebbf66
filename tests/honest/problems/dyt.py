"""Dynamic tanh, which takes the place of a norm."""

import torch


def reference(x: torch.Tensor, alpha: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(alpha.float() * x.float()) * w.float() + b.float()
    return y.to(x.dtype)


INPUTS = {
    "x": "T H",
    "alpha": {"dims": "1", "init": "ones", "role": "parameter"},
    "w": {"dims": "H", "init": "ones", "role": "parameter"},
    "b": {"dims": "H", "init": "zeros", "role": "parameter"},
}
WORKLOADS = [{"T": 4096, "H": 8192}]
