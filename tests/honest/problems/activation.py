"""An activation by name: leaky ReLU or SiLU, in float32."""

import torch
import torch.nn.functional as F


def reference(x: torch.Tensor, kind: str = "leaky_relu", slope: float = 0.1) -> torch.Tensor:
    y = F.leaky_relu(x.float(), slope) if kind == "leaky_relu" else F.silu(x.float())
    return y.to(x.dtype)


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 4096, "H": 8192}, {"T": 4096, "H": 4096, "kind": "silu"}]
