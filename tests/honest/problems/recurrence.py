"""A linear recurrence along every row: h = a * h + b, in float32."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a, b = torch.sigmoid(a.float()), b.float()
    found = [b[:, 0]]
    for step in range(1, b.shape[1]):
        found.append(a[:, step] * found[-1] + b[:, step])
    return torch.stack(found, 1)


INPUTS = {"a": {"dims": "T S", "grad": False}, "b": {"dims": "T S", "grad": False}}
WORKLOADS = [{"T": 512, "S": 256}]
DTYPES = ["float32"]
