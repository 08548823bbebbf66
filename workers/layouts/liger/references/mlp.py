"""The SwiGLU MLP of three linear layers."""

import torch


def reference(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return (torch.nn.functional.silu(x @ gate.t()) * (x @ up.t())) @ down.t()


INPUTS = {
    "x": "B S H",
    "gate": {"dims": "I H", "role": "parameter"},
    "up": {"dims": "I H", "role": "parameter"},
    "down": {"dims": "H I", "role": "parameter"},
}
WORKLOADS = [
    {"B": 2, "S": 4096, "H": 4096, "I": 14336},
    {"B": 1, "S": 4096, "H": 4096, "I": 11008},
    {"B": 1, "S": 1024, "H": 4096, "I": 11008},
]
CALL = "LigerMLPFunction.apply(x, gate, up, down, 1.0, 1.0)"
