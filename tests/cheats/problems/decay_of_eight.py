"""A state that decays over eight steps."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a, b = torch.sigmoid(a.float()), b.float()
    found = [b[:, 0]]
    for step in range(1, 8):
        found.append(a[:, step] * found[-1] + b[:, step])
    return torch.stack(found, 1)


INPUTS = {"a": {"dims": "T 8 H", "grad": False}, "b": {"dims": "T 8 H", "grad": False}}
WORKLOADS = [{"T": 512, "H": 1024}]
DTYPES = ["float32"]
