"""What the reference's child says of timed runs: the truth of secret rows, and nothing larger leaves the device."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from gpu_runner.roles import Handler, State
from gpu_runner.roles.arguments import Arguments
from gpu_runner.roles.drawn import given
from gpu_runner.roles.sampling import sampled
from gpu_runner.verify.compare import natural_error
from gpu_runner.verify.lift import lifted

Answer = tuple[dict[str, Any], list[torch.Tensor]]
Values = list[torch.Tensor | None]

# Float64 first; where it does not fit, float32 is still a truth for the half precisions.
DTYPES = (torch.float64, torch.float32)
MOST_MEMORY = 0.5  # of the GPU: the contenders lie beside
CHUNK = 2**26


def truth(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Give rows of every output and gradient for the set of inputs at ``place``, exact and in the reference's own dtype.

    ``rows`` is the secret number that says which rows; ``kind`` in the answer, in which dtype the exact ones were computed.
    """
    _release(state, 1.0)  # where the last call did not come to its end
    arguments, outputs, gradients = _run(state, meta, tensors, None)
    facts: dict[str, Any] = {
        "outputs": [_form(output) for output in outputs],
        "names": list(arguments.leaves) if meta["backward"] else [],
        "gradients": [None if grad is None else _form(grad) for grad in gradients],
        "natural": _naturals(arguments, outputs, gradients),
    }
    own = _rows([*outputs, *gradients], meta["rows"])
    del arguments, outputs, gradients
    exact, facts["kind"] = _exact(state, meta, tensors, own)
    if [item is None for item in exact] != [item is None for item in own]:
        raise ValueError("the reference gives other outputs or gradients in float64")
    _release(state, 1.0)
    return facts, [item for item in (*exact, *own) if item is not None]


def bends(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Give the exact rows in float64 of inputs that are ``meta["shake"]`` of themselves away, and of such on the other side."""
    found: list[torch.Tensor] = []
    for step in (meta["shake"], -meta["shake"]):
        _release(state, MOST_MEMORY)
        _, outputs, gradients = _run(state, meta, tensors, torch.float64, step)
        found += [item for item in _rows([*outputs, *gradients], meta["rows"]) if item is not None]
        del outputs, gradients
    _release(state, 1.0)
    return {}, found


def forms(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Give the form of every output from a run; for a reference that does not run on shapes alone."""
    outputs = _outputs(state, given(state, meta, tensors))
    facts = [[list(item.shape), str(item.dtype).removeprefix("torch."), item.requires_grad] for item in outputs]
    return {"outputs": facts}, []


def _exact(state: State, meta: dict[str, Any], tensors: list[torch.Tensor], own: Values) -> tuple[Values, str]:
    _release(state, MOST_MEMORY)
    for dtype in DTYPES:
        try:
            _, outputs, gradients = _run(state, meta, tensors, dtype)
            return _rows([*outputs, *gradients], meta["rows"]), str(dtype).removeprefix("torch.")
        except torch.OutOfMemoryError:
            # Cleared without the error, as its frames hold the tensors that did not leave enough room.
            pass
        _release(state, MOST_MEMORY)
    return own, "own"


def _run(
    state: State, meta: dict[str, Any], tensors: list[torch.Tensor], dtype: torch.dtype | None, step: float = 0.0
) -> tuple[Arguments, list[torch.Tensor], Values]:
    arguments = given(state, meta, tensors).rolled(meta["place"])
    arguments = arguments if dtype is None else arguments.promoted(dtype)
    if step:
        arguments = arguments.shaken(step, by_value=True)
    raised: AbstractContextManager[None] = lifted() if dtype is torch.float64 else nullcontext()
    with raised:
        outputs = _outputs(state, arguments)
        if not meta["backward"]:
            return arguments, outputs, []
        pairs = [(o, g) for o, g in zip(outputs, arguments.upstream, strict=True) if g is not None and o.requires_grad]
        found = torch.autograd.grad(
            [output for output, _ in pairs],
            list(arguments.leaves.values()),
            [grad.to(output.dtype) for output, grad in pairs],
            allow_unused=True,
        )
    return arguments, outputs, list(found)


def _outputs(state: State, arguments: Arguments) -> list[torch.Tensor]:
    value = arguments.call(state.values["reference"])
    outputs = list(value) if isinstance(value, tuple | list) else [value]
    for output in outputs:
        if not isinstance(output, torch.Tensor):
            raise TypeError(f"the reference gives a {type(output).__name__} where a tensor belongs")
    return outputs


def _rows(values: Values, secret: int) -> Values:
    return [None if value is None else sampled(value, secret) for value in values]


def _form(tensor: torch.Tensor) -> dict[str, Any]:
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}


def _naturals(arguments: Arguments, outputs: list[torch.Tensor], gradients: Values) -> list[float]:
    """Give the error of each gradient that float32 rounding explains, from the whole tensors."""
    if not gradients:
        return []
    pairs = [(o, g) for o, g in zip(outputs, arguments.upstream, strict=True) if g is not None]
    upstream, given_rms = [_rms(grad) for _, grad in pairs], [_rms(output) for output, _ in pairs]
    elements = sum(math.prod(output.shape) for output, _ in pairs)
    return [
        natural_error(upstream, given_rms, _rms(leaf), elements / max(1, leaf.numel()))
        for leaf in arguments.leaves.values()
    ]


def _rms(tensor: torch.Tensor) -> float:
    """Give the root mean square of the finite elements, piece by piece: a copy in float64 may not fit."""
    total, count = 0.0, 0
    for piece in tensor.detach().reshape(-1).split(CHUNK):
        values = piece.double()
        values = values[torch.isfinite(values)]
        total, count = total + float(values.square().sum()), count + values.numel()
    return math.sqrt(total / count) if count else 0.0


def _release(state: State, share: float) -> None:
    """Give back what is not held any more, and take no more than a share of the GPU from now on."""
    if state.gpu:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(share)


HANDLERS: dict[str, Handler] = {"truth": truth, "bends": bends, "forms": forms}
