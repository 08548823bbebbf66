"""The largest number of each row and where it is."""

import torch


def reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.amax(-1), x.argmax(-1)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 4096, "H": 8192}]
DTYPES = ["float32", "bfloat16"]
