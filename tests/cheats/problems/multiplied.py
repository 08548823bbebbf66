"""Each element times e."""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return (x.float() * 2.7182817).to(x.dtype)


INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 2048, "H": 1024}]
DTYPES = ["float32", "bfloat16"]
