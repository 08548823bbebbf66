"""The role of the sandbox's own tests: gives back what it got, and misbehaves on demand."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gpu_runner.child.handlers import ChildState, Handler

if TYPE_CHECKING:
    import torch

Answer = tuple[dict[str, Any], "list[torch.Tensor]"]


def echo(state: ChildState, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Returns what it got."""
    return meta, tensors


def run(state: ChildState, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Import the module ``meta["module"]`` of the session's files and call its ``main(state, tensors)``, if it has one."""
    module = importlib.import_module(meta["module"])
    if not hasattr(module, "main"):
        return {}, []
    answer: Answer = module.main(state, tensors)
    return answer


HANDLERS: dict[str, Handler] = {"echo": echo, "run": run}
