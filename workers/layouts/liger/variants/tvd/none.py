"""The total variation distance of two distributions, by element in float32."""

import torch


def reference(p: torch.Tensor, q: torch.Tensor, ignore_index: int = -100) -> torch.Tensor:
    return (0.5 * (p - q).abs()).float()


INPUTS = {"p": {"dims": "T V", "init": "softmax"}, "q": {"dims": "T V", "init": "softmax", "grad": False}}
WORKLOADS = [{"T": 4096, "V": 32768}, {"T": 2048, "V": 32000}, {"T": 1024, "V": 16384}]
CALL = "LigerTVDLossFunction.apply(p, q, None, 'none', ignore_index)"
