"""SwiGLU: a gated unit with SiLU on the gate, and a multiplier on the gate and on the result."""

import torch


def reference(
    a: torch.Tensor, b: torch.Tensor, gate_multiplier: float = 1.0, down_multiplier: float = 1.0
) -> torch.Tensor:
    return torch.nn.functional.silu(a * gate_multiplier) * b * down_multiplier


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 8192, "I": 14336}, {"T": 4096, "I": 11008}, {"T": 128, "I": 1024}]
CALL = "LigerSiLUMulFunction.apply(a, b, gate_multiplier, down_multiplier)"
