"""Cross entropy of rows, of which some are padding."""

import torch
import torch.nn.functional as F


def reference(x: torch.Tensor, target: torch.Tensor, pad: int = -100) -> torch.Tensor:
    return F.cross_entropy(x.float(), target, ignore_index=pad, reduction="none")


INPUTS = {"x": "T V", "target": {"dims": "T", "dtype": "int64", "low": 0, "high": "V"}}
WORKLOADS = [{"T": 4096, "V": 32000}]
DTYPES = ["float32"]
