"""Log of the sum of exponentials of every row, in float32."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(x.float(), dim=-1)


INPUTS = {"x": "T V"}
WORKLOADS = [{"T": 4096, "V": 8192}]
