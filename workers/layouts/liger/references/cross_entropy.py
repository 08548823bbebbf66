"""Cross-entropy of logits and class indices in float32, the mean over all rows."""

import torch


def reference(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(x.float(), target).to(x.dtype)


INPUTS = {"x": "T V", "target": {"dims": "T", "dtype": "int64", "low": 0, "high": "V"}}
WORKLOADS = [{"T": 4096, "V": 128256}, {"T": 4096, "V": 32000}, {"T": 1024, "V": 32000}]
CALL = "LigerCrossEntropyFunction.apply(x, target, None, -100, 0.0, 0.0, 'mean', None, False, False, False)[0]"
