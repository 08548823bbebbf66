"""GRPO: the clipped ratio times the advantage, less a penalty for leaving the reference policy, over the tokens that count."""

import torch


def reference(
    logits: torch.Tensor,
    old: torch.Tensor,
    ref: torch.Tensor,
    index: torch.Tensor,
    advantage: torch.Tensor,
    mask: torch.Tensor,
) -> torch.Tensor:
    logs = (logits[:, :-1].float() / 0.9).log_softmax(-1)
    chosen = logs.gather(-1, index[..., None]).squeeze(-1)
    ratio, gain = (chosen - old.float()).exp(), advantage.float()[:, None]
    loss = -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
    away, counts = ref.float() - chosen, mask.float()
    loss = (loss + 0.04 * (away.exp() - away - 1)) * counts
    return (loss.sum(-1) / counts.sum(-1).clamp(min=1.0)).mean()


INPUTS = {
    "logits": "B 513 V",
    "old": {"dims": "B 512", "init": "log_softmax", "grad": False},
    "ref": {"dims": "B 512", "init": "log_softmax", "grad": False},
    "index": {"dims": "B 512", "dtype": "int64", "low": 0, "high": "V"},
    "advantage": {"dims": "B", "grad": False},
    "mask": {"dims": "B 512", "dtype": "int32", "low": 0, "high": 2},
}
WORKLOADS = [{"B": 16, "V": 128256}, {"B": 16, "V": 32000}, {"B": 4, "V": 32000}]
CALL = "GrpoLossFunction.apply(logits, old, ref, index, advantage, mask, 0.9, 0.04, 0.2, 0.2, False)[0]"
