"""Cross-entropy of a linear layer's rows and class indices in float32, the mean over all rows."""

import torch


def reference(x: torch.Tensor, w: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy((x @ w.t()).float(), target)


INPUTS = {
    "x": "T H",
    "w": {"dims": "V H", "role": "parameter"},
    "target": {"dims": "T", "dtype": "int64", "low": 0, "high": "V"},
}
WORKLOADS = [
    {"T": 8192, "H": 4096, "V": 128256},
    {"T": 4096, "H": 4096, "V": 32000},
    {"T": 2048, "H": 2048, "V": 32000},
]
CALL = "LigerFusedLinearCrossEntropyFunction.apply(x, w, target)[0]"
