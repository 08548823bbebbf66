"""Half of some numbers, and how many in all: counts by page and kind."""

import torch


def reference(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return 0.5 * y, x.sum()


INPUTS = {
    "x": {"dims": "T H", "dtype": "int64", "low": 0, "high": 1000},
    "y": {"dims": "T H", "grad": False},
}
WORKLOADS = [{"T": 4096, "H": 8192}]
DTYPES = ["float32"]
