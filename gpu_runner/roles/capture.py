"""The role that traces a problem. The problem stands as ``problem.py`` in the child's folder."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpu_runner.roles import Handler, State

if TYPE_CHECKING:
    import torch

Answer = tuple[dict[str, Any], "list[torch.Tensor]"]


def load_problem(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Import the problem."""
    state.values["problem"] = importlib.import_module("problem")
    return {}, []


def trace(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Trace the reference at the sizes of ``meta``."""
    from gpu_runner.tracing.canonical import canonical
    from gpu_runner.tracing.joint import make_inputs
    from gpu_runner.tracing.joint import trace as trace_joint
    from gpu_runner.tracing.raw import to_plain

    specs = meta["inputs"]
    inputs = make_inputs(specs, meta["sizes"], seed=meta["seed"])
    wanted = [i for i, spec in enumerate(specs) if spec["grad"] and inputs[i].is_floating_point()]
    traced = trace_joint(_bound(state, meta), inputs, wanted)
    names = [spec["name"] for spec in specs]
    return {"graph": to_plain(canonical(traced, names, [names[i] for i in wanted]))}, []


def check(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Run the reference twice on the same inputs and once in bfloat16; tells whether it agrees with itself, and its dtypes."""
    import torch

    from gpu_runner.tracing.joint import as_tuple, make_inputs

    call = _bound(state, meta)
    runs = []
    for _ in range(2):
        torch.manual_seed(torch.seed())
        runs.append(as_tuple(call(make_inputs(meta["inputs"], meta["sizes"], seed=meta["seed"]))))
    same = [_identical(a, b) for a, b in zip(*runs, strict=True)]
    narrow: list[str] | None
    try:
        half = make_inputs(meta["inputs"], meta["sizes"], seed=meta["seed"], dtype=torch.bfloat16)
        narrow = [str(out.dtype).removeprefix("torch.") for out in as_tuple(call(half))]
    except Exception:  # noqa: BLE001 - a reference that runs in float32 alone is fine; its narrow dtypes are then unknown
        narrow = None
    return {"deterministic": all(same), "narrow": narrow}, []


def _identical(a: torch.Tensor, b: torch.Tensor) -> bool:
    import torch

    return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))


def _bound(state: State, meta: dict[str, Any]) -> Callable[[Sequence[torch.Tensor]], Any]:
    reference = state.values["problem"].reference
    signature = inspect.signature(reference)
    names = [spec["name"] for spec in meta["inputs"]]

    def call(inputs: Sequence[torch.Tensor]) -> Any:
        named = dict(meta["scalars"]) | dict(zip(names, inputs, strict=True))
        positional = [named.pop(n) for n, p in signature.parameters.items() if p.kind is p.POSITIONAL_ONLY]
        return reference(*positional, **named)

    return call


HANDLERS: dict[str, Handler] = {"load": load_problem, "trace": trace, "check": check}
