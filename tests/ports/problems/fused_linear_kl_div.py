"""KL divergence of a linear layer's logits from a distribution, a mean over the batch."""

import torch
import torch.nn.functional as F


def reference(x: torch.Tensor, w: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.kl_div(F.log_softmax((x @ w.t()).float(), dim=-1), target.float(), reduction="batchmean")


INPUTS = {"x": "T H", "w": "V H", "target": {"dims": "T V", "init": "softmax", "grad": False}}
WORKLOADS = [{"T": 2048, "H": 1024, "V": 8192}, {"T": 1024, "H": 1024, "V": 4096}, {"T": 256, "H": 512, "V": 2048}]
CALL = "LigerFusedLinearKLDivFunction.apply(x, w, target)"
