"""Softmax at a temperature."""

import torch


def reference(x: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    return torch.softmax(x.float() / temperature, dim=-1).to(x.dtype)


INPUTS = {"x": {"dims": "T V", "grad": False}}
WORKLOADS = [{"T": 4096, "V": 1024}]
