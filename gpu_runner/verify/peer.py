"""What stands in the candidate's place, in one case: what it gave, and which checks it fails itself. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gpu_runner.verify.answer import CaseAnswer, ReturnedValue
from gpu_runner.verify.proof import Expected


@dataclass(frozen=True)
class Peer:
    """The original in one case. ``failed`` names the runs that raise, or give values that are wrong by far."""

    answer: CaseAnswer | None = None
    failed: frozenset[str] = frozenset()

    def values(self, run: str, label: str) -> list[ReturnedValue]:
        """What the original gave under a label in a run; of two plain runs both count, as they may differ in rounding."""
        if self.answer is None:
            return []
        runs = ("first", "second") if run in ("first", "second") else (run,)
        values = [self.answer.runs.get(name, {}).get(label) for name in runs if name not in self.failed]
        return [value for value in values if value is not None]

    def tensors(self, run: str, label: str, item: Expected) -> list[torch.Tensor]:
        """The original's values in the expected shape; none that has another number of elements."""
        tensors = [value.tensor for value in self.values(run, label)]
        return [
            tensor.reshape(item.shape)
            for tensor in tensors
            if tensor is not None and tensor.numel() == item.truth.exact.numel()
        ]

    def has_form(self, run: str, label: str, value: ReturnedValue) -> bool:
        """Say whether the original gave the same kind, shape, dtype, strides and device there."""
        facts = (value.kind, value.shape, value.stride, value.dtype, value.device, value.differentiable)
        return any(
            facts == (other.kind, other.shape, other.stride, other.dtype, other.device, other.differentiable)
            for other in self.values(run, label)
        )


NO_PEER = Peer()
