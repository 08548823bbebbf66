"""The role of the sandbox's own tests: gives back what it got, and misbehaves on demand."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gpu_runner.child.handlers import Answer, ChildState, Handler
from gpu_runner.messages import CallMain, Echo, Request

if TYPE_CHECKING:
    import torch


def echo(state: ChildState, request: Echo, tensors: list[torch.Tensor]) -> Answer[dict[str, Any]]:
    """Returns what it got."""
    return request.values, tensors


def run(state: ChildState, request: CallMain, tensors: list[torch.Tensor]) -> Answer[dict[str, Any]]:
    """Returns what the module's ``main`` does: values by name, and tensors."""
    module = importlib.import_module(request.module)
    values, answers = module.main(state, tensors) if hasattr(module, "main") else ({}, [])
    return values, answers


HANDLERS: dict[type[Request[Any]], Handler] = {Echo: echo, CallMain: run}
