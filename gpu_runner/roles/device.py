"""The first call to every child that computes: the device is opened before any untrusted code is imported."""

from __future__ import annotations

from typing import Any

import torch

from gpu_runner.roles import State


def start(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """Open the device; what fails here is the host's fault and nobody else's."""
    if state.gpu:
        torch.zeros(1, device="cuda").item()
    return {}, []
