"""Dynamic Tanh: a scaled tanh with a weight and a bias, in place of a norm, in float32."""

import torch


def reference(x: torch.Tensor, alpha: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    return (gamma.float() * torch.tanh(alpha.float() * x.float()) + beta.float()).to(x.dtype)


INPUTS = {
    "x": "T H",
    "alpha": {"dims": "1", "role": "parameter"},
    "gamma": {"dims": "H", "role": "parameter"},
    "beta": {"dims": "H", "role": "parameter"},
}
WORKLOADS = [{"T": 16384, "H": 8192}, {"T": 8192, "H": 4096}, {"T": 2048, "H": 4096}]
CALL = "LigerDyTFunction.apply(x, alpha, gamma, beta)"
