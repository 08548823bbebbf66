"""Mean cross entropy of logits, computed in float32."""

import torch
import torch.nn.functional as F


def reference(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x.float(), target)


INPUTS = {"x": "T V", "target": {"dims": "T", "dtype": "int64", "low": 0, "high": "V"}}
WORKLOADS = [{"T": 4096, "V": 32000}]
