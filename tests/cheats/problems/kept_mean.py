"""The mean of the rows that a mask keeps."""

import torch


def reference(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    m = keep.float()
    return ((x.float() * m[:, None]).sum(0) / m.sum().clamp(min=1.0)).to(x.dtype)


INPUTS = {"x": {"dims": "T H", "grad": False}, "keep": {"dims": "T", "dtype": "bool"}}
WORKLOADS = [{"T": 8192, "H": 1024}]
