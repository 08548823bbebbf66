"""Elements times their position."""

import torch


def reference(x: torch.Tensor, start: int = 0) -> torch.Tensor:
    places = torch.arange(x.shape[-1], device=x.device) + start
    return (x.float() * places.float()).to(x.dtype)


INPUTS = {"x": {"dims": "T S", "grad": False}}
WORKLOADS = [{"T": 4096, "S": 1024}]
