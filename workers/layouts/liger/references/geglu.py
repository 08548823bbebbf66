"""GEGLU: a gated unit with the tanh form of GELU on the gate."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(a, approximate="tanh") * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 8192, "I": 14336}, {"T": 4096, "I": 11008}, {"T": 1024, "I": 11008}]
CALL = "LigerGELUMulFunction.apply(a, b)"
