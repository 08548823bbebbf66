"""Each column times the softplus of a parameter, which a model may train far from where it begins."""

import torch
import torch.nn.functional as F


def reference(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return x * F.softplus(s)


INPUTS = {"x": {"dims": "T H", "grad": False}, "s": {"dims": "H", "init": "zeros", "role": "parameter"}}
WORKLOADS = [{"T": 1024, "H": 512}]
DTYPES = ["float32"]
