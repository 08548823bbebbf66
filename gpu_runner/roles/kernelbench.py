"""The role that builds a KernelBench model once and says what it takes. The problem stands as ``problem.py``."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from gpu_runner.roles import Handler, State

if TYPE_CHECKING:
    import torch


def describe(
    state: State, meta: dict[str, Any], tensors: list[torch.Tensor]
) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """Give the inputs of the call, the parameters and buffers, and the names of tensors that the model hides from both."""
    import torch

    problem = importlib.import_module("problem")
    model = problem.Model(*problem.get_init_inputs())
    if not isinstance(model, torch.nn.Module):
        raise TypeError("Model is no torch.nn.Module")
    parameters = list(inspect.signature(model.forward).parameters.values())
    inputs = problem.get_inputs()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY) for p in parameters) or len(inputs) > len(
        parameters
    ):
        raise TypeError("forward takes *args or **kwargs, or fewer arguments than get_inputs gives")
    model(*inputs)
    hidden = [
        f"{path}.{name}".lstrip(".")
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, torch.Tensor)
    ]
    return {
        "inputs": [_value(p.name, value) for p, value in zip(parameters, inputs, strict=False)],
        "parameters": [_tensor(name, value) for name, value in model.named_parameters()],
        "buffers": [_tensor(name, value) for name, value in model.named_buffers()],
        "hidden": hidden,
    }, []


def _value(name: str, value: Any) -> dict[str, Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return _tensor(name, value)
    if isinstance(value, bool | int | float | str):
        return {"name": name, "value": value}
    raise TypeError(f"get_inputs gives a {type(value).__name__} for {name}")


def _tensor(name: str, value: torch.Tensor) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": name,
        "shape": list(value.shape),
        "dtype": str(value.dtype).removeprefix("torch."),
        "grad": value.requires_grad,
    }
    if value.numel() and not value.is_floating_point() and not value.is_complex():
        described |= {"low": int(value.min()), "high": int(value.max()) + 1}
    return described


HANDLERS: dict[str, Handler] = {"describe": describe}
