"""Cross-entropy of each token in float32, of a vocabulary that is not cut."""

import torch


def reference(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return -x.float().log_softmax(-1).gather(-1, target[..., None]).squeeze(-1)


INPUTS = {"x": "S B V", "target": {"dims": "S B", "dtype": "int64", "low": 0, "high": "V"}}
WORKLOADS = [{"S": 4096, "B": 1, "V": 128256}, {"S": 2048, "B": 2, "V": 32000}, {"S": 1024, "B": 1, "V": 32000}]
CALL = "LigerVocabParallelCEFunction.apply(x, target, None, -100, 0.0, 'megatron', 'global')"
