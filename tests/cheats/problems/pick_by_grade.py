"""A function of the element with the largest grade of each row, the first of equal ones."""

import torch


def reference(x: torch.Tensor, grade: torch.Tensor) -> torch.Tensor:
    return torch.exp(-x.gather(1, grade.argmax(-1, keepdim=True)).abs()).squeeze(1)


INPUTS = {"x": {"dims": "T H", "grad": False}, "grade": {"dims": "T H", "dtype": "int64", "low": 0, "high": 6}}
WORKLOADS = [{"T": 4096, "H": 512}]
