"""SwiGLU experts, each token's chosen ones weighted and summed."""

import torch


def reference(
    x: torch.Tensor, up: torch.Tensor, down: torch.Tensor, chosen: torch.Tensor, share: torch.Tensor
) -> torch.Tensor:
    gate, value = (x @ up.transpose(1, 2)).chunk(2, -1)
    y = (torch.nn.functional.silu(gate) * value) @ down.transpose(1, 2)
    experts = torch.arange(8, device=x.device)[:, None, None]
    weight = (share.float() * (chosen == experts)).sum(-1, keepdim=True)
    return (weight * y.float()).sum(0).to(x.dtype)


INPUTS = {
    "x": "T H",
    "up": {"dims": "8 2816 H", "role": "parameter"},
    "down": {"dims": "8 H 1408", "role": "parameter"},
    "chosen": {"dims": "T 2", "dtype": "int32", "low": 0, "high": 8},
    "share": {"dims": "T 2", "init": "softmax"},
}
WORKLOADS = [{"T": 8192, "H": 2048}, {"T": 4096, "H": 2048}, {"T": 1024, "H": 2048}]
CALL = "LigerFusedMoEFunction.apply(x, up, down, chosen, share)"
