"""The role that builds a KernelBench model once and says what it takes. The problem stands as ``problem.py``."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpu_runner.roles import Handler, State

if TYPE_CHECKING:
    import torch

    from gpu_runner.tracing.fake import Bounds, BoundsOfIntegers


def describe(
    state: State, meta: dict[str, Any], tensors: list[torch.Tensor]
) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """Give the inputs of the call, the parameters and buffers, and the names of tensors that the model hides from both.

    Model and inputs are made without data: they may be larger than memory. What asks for values while it is made gets them.
    """
    import torch

    from gpu_runner.tracing.fake import MOST_ELEMENTS_WITH_DATA, NEEDS_DATA, BoundsOfIntegers, fake_mode

    problem = importlib.import_module("problem")
    mode, bounds = fake_mode(), BoundsOfIntegers()

    def made(make: Callable[[], Any]) -> Any:
        try:
            with mode, bounds:
                return make()
        except NEEDS_DATA:
            with bounds:
                return make()

    model = made(lambda: problem.Model(*problem.get_init_inputs()))
    if not isinstance(model, torch.nn.Module):
        raise TypeError("Model is no torch.nn.Module")
    parameters = list(inspect.signature(model.forward).parameters.values())
    inputs = made(problem.get_inputs)
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY) for p in parameters) or len(inputs) > len(
        parameters
    ):
        raise TypeError("forward takes *args or **kwargs, or fewer arguments than get_inputs gives")
    hidden = [
        f"{path}.{name}".lstrip(".")
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, torch.Tensor)
    ]
    elements = sum(value.numel() for _, value in _held(model))
    start = _constants(problem.Model(*problem.get_init_inputs())) if elements <= MOST_ELEMENTS_WITH_DATA else {}
    drawn = _drawn(problem, inputs, bounds)
    return {
        "inputs": [_value(p.name, value, drawn) for p, value in zip(parameters, inputs, strict=False)],
        "parameters": [_tensor(n, v, bounds.of) | start.get(n, {}) for n, v in model.named_parameters()],
        "buffers": [_tensor(n, v, bounds.of) | start.get(n, {}) for n, v in model.named_buffers()],
        "hidden": hidden,
        "held_elements": elements,
    }, []


def _held(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]


def _constants(model: torch.nn.Module) -> dict[str, dict[str, str]]:
    """Tell which parameters and buffers start as ones, and which as zeros."""
    return {
        name: {"init": init}
        for name, value in _held(model)
        for init, number in (("ones", 1), ("zeros", 0))
        if value.is_floating_point() and value.numel() and bool((value == number).all())
    }


def _drawn(problem: Any, inputs: Sequence[Any], bounds: BoundsOfIntegers) -> Callable[[torch.Tensor], Bounds | None]:
    """Give the bounds of whole numbers among the inputs: those they were drawn with, else of one draw where it is small."""
    import torch

    from gpu_runner.tracing.fake import MOST_ELEMENTS_WITH_DATA

    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    whole = [x for x in tensors if not x.is_floating_point() and x.dtype is not torch.bool]
    unknown = [x for x in whole if bounds.of(x) is None]
    if not unknown or sum(x.numel() for x in tensors) > MOST_ELEMENTS_WITH_DATA:
        return bounds.of
    seen = {
        id(x): (int(real.min()), int(real.max()) + 1)
        for x, real in zip(inputs, problem.get_inputs(), strict=True)
        if any(x is other for other in unknown) and real.numel()
    }
    return lambda x: seen.get(id(x)) or bounds.of(x)


def _value(name: str, value: Any, bounds: Callable[[torch.Tensor], Bounds | None]) -> dict[str, Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return _tensor(name, value, bounds)
    if isinstance(value, bool | int | float | str):
        return {"name": name, "value": value}
    raise TypeError(f"get_inputs gives a {type(value).__name__} for {name}")


def _tensor(name: str, value: torch.Tensor, bounds: Callable[[torch.Tensor], Bounds | None]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": name,
        "shape": list(value.shape),
        "dtype": str(value.dtype).removeprefix("torch."),
        "grad": value.requires_grad,
    }
    found = None if value.is_floating_point() else bounds(value)
    return described if found is None else described | {"low": found[0], "high": found[1]}


HANDLERS: dict[str, Handler] = {"describe": describe}
