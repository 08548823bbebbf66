"""Cross-entropy with a label, and total variation distance from a teacher's distribution, of each row of logits."""

import torch


def reference(x: torch.Tensor, teacher: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    logs = x.float().log_softmax(-1)
    loss = -logs.gather(-1, target[:, None]).squeeze(-1)
    return loss, 0.5 * (logs.exp() - teacher.float().softmax(-1)).abs().sum(-1)


INPUTS = {
    "x": "T V",
    "teacher": {"dims": "T V", "grad": False},
    "target": {"dims": "T", "dtype": "int64", "low": 0, "high": "V"},
}
WORKLOADS = [{"T": 4096, "V": 128256}, {"T": 4096, "V": 32000}, {"T": 1024, "V": 32000}]
CALL = "LigerFusedCETVDFunction.apply(x, teacher, target, -100)"
