"""Causal probabilities, convolved over queries and keys, each head by itself."""

import torch


def reference(scores: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    later = torch.ones_like(scores, dtype=torch.bool).triu(1)
    share = scores.masked_fill(later, float("-inf")).softmax(-1)
    return torch.nn.functional.conv2d(share, w, b, padding=1).tril()


INPUTS = {
    "scores": "B 8 L L",
    "w": {"dims": "8 8 3 3", "role": "parameter"},
    "b": {"dims": "8", "role": "parameter"},
}
WORKLOADS = [{"B": 2, "L": 2048}, {"B": 2, "L": 1024}, {"B": 2, "L": 512}]
CALL = "LigerMultiTokenAttentionFunction.apply(scores, w, b, 1, 1, 1, 1, False)"
