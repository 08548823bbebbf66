"""The role in which a candidate runs: it gets inputs, fills outputs and gradients, and judges nothing."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_runner.roles import Handler, State
from gpu_runner.roles.arguments import Arguments, settle
from gpu_runner.roles.bfloat16 import teach_interpreter
from gpu_runner.roles.device import start
from gpu_runner.verify.remembered import Births
from gpu_runner.verify.watch import Watch, watch_launches

# Taken before a candidate is imported, so that it calls what torch had then.
_grad = torch.autograd.grad
_synchronize = torch.cuda.synchronize

MOST_OUTPUTS = 64  # more than any problem has; the rest is not looked at

Answer = tuple[dict[str, Any], list[torch.Tensor]]
_current: list[Watch] = []


@dataclass
class _Reply:
    """Collects tensors under labels for the answer."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)

    def add(self, label: str, value: Any) -> None:
        entry: dict[str, Any] = {"label": label, "kind": type(value).__name__}
        if _is_plain(value):
            # Copied at once and in order, as a caller on the same stream would read it.
            copy = value.detach().contiguous().clone()
            entry |= {
                "tensor": len(self.tensors),
                "shape": list(value.shape),
                "stride": list(value.stride()),
                "dtype": str(value.dtype).removeprefix("torch."),
                "device": value.device.type,
                "differentiable": value.requires_grad,
            }
            self.tensors.append(copy)
        self.entries.append(entry)


def load(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Import the candidate; a ``ModelNew`` is built with ``meta["init"]``."""
    if not state.gpu:
        teach_interpreter()
    watch_launches(lambda: _current[-1] if _current else None)
    module = importlib.import_module(meta["module"])
    found = module
    for part in meta["symbol"].split("."):
        found = getattr(found, part)
    if meta["form"] == "kernelbench":
        found = found(*meta["init"]).to(state.device)  # type: ignore[operator]
    if not callable(found):
        raise TypeError(f"{meta['symbol']} is not callable")
    state.values["candidate"] = found
    return {}, []


def run(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Run one case: forward, backward, both once more, and the raw inputs as they are afterwards."""
    arguments = settle(state, meta, tensors)
    watch = Watch(str(state.work), meta["poison"], state.values.setdefault("births", Births()))
    reply = _Reply()
    _current.append(watch)
    try:
        with watch:
            kept = _steps(state, meta, tensors, arguments, watch, reply)
        if state.gpu:
            _synchronize()
        facts = {
            "launched": watch.launched,
            "launches": watch.launches,
            "computed": watch.computed,
            "remembered": watch.remembered,
            "broken": watch.broken_guards(),
            "untouched": [label for label, value in kept.items() if _is_untouched(value, watch, arguments)],
        }
    finally:
        _current.pop()
    reply.tensors += list(arguments.raw.values())
    reply.tensors += arguments.raw_upstream
    facts |= {"values": reply.entries, "raw": list(arguments.raw), "raw_upstream": len(arguments.raw_upstream)}
    return facts, reply.tensors


def memory(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Give the peak bytes of GPU memory that forward and backward take beyond what was there; unwatched."""
    if not state.gpu:
        return {}, []
    arguments = settle(state, meta, tensors)
    peaks: dict[str, Any] = {"forward": None, "backward": None}
    _synchronize()
    for _ in range(2):  # the first run also compiles
        before = _reset_peak()
        outputs = _outputs(_call(state, arguments))
        peaks["forward"] = torch.cuda.max_memory_allocated() - before
        if meta["backward"]:
            _reset_peak()
            _backward(outputs, arguments, retain=False)
            peaks["backward"] = torch.cuda.max_memory_allocated() - before
        del outputs
    return peaks, []


def _reset_peak() -> int:
    _synchronize()
    torch.cuda.reset_peak_memory_stats()
    return int(torch.cuda.memory_allocated())


def _steps(
    state: State,
    meta: dict[str, Any],
    tensors: list[torch.Tensor],
    arguments: Arguments,
    watch: Watch,
    reply: _Reply,
) -> dict[str, Any]:
    kept = _once(state, meta, arguments, watch, reply, "first")
    _restore(meta, arguments, tensors, watch)
    _once(state, meta, arguments, watch, reply, "second")
    if meta["again"]:
        _restore(meta, arguments, tensors, watch)
        _interleaved(state, meta, arguments, watch, reply)
    return kept


def _once(
    state: State, meta: dict[str, Any], arguments: Arguments, watch: Watch, reply: _Reply, name: str
) -> dict[str, Any]:
    watch.begin(name)
    watch.begin_step()
    outputs = _outputs(_call(state, arguments))
    kept: dict[str, Any] = {f"output {place}": value for place, value in enumerate(outputs)}
    with watch.paused():
        for label, value in kept.items():
            reply.add(f"{name}/{label}", value)
    if meta["backward"]:
        watch.begin_step()
        for label, value in _backward(outputs, arguments, retain=False).items():
            kept[label] = value
            with watch.paused():
                reply.add(f"{name}/{label}", value)
    return kept


def _interleaved(state: State, meta: dict[str, Any], arguments: Arguments, watch: Watch, reply: _Reply) -> None:
    """Two forwards on different inputs, then two backwards, the first of them twice."""
    watch.begin("interleaved")
    watch.begin_step()
    here = _outputs(_call(state, arguments))
    watch.begin_step()
    there = _outputs(_call(state, arguments.other))
    rounds = [("interleaved", here, arguments), ("interleaved other", there, arguments.other)]
    for name, outputs, given in rounds:
        with watch.paused():
            for place, value in enumerate(outputs):
                reply.add(f"{name}/output {place}", value)
        if not meta["backward"]:
            continue
        watch.begin_step()
        for label, value in _backward(outputs, given, retain=True).items():
            with watch.paused():
                reply.add(f"{name}/{label}", value)
    if meta["backward"]:
        watch.begin_step()
        for label, value in _backward(here, arguments, retain=False).items():
            with watch.paused():
                reply.add(f"second backward/{label}", value)


def _restore(meta: dict[str, Any], arguments: Arguments, tensors: list[torch.Tensor], watch: Watch) -> None:
    if meta["mutates"]:
        with watch.paused():
            arguments.refill(meta, tensors)


def _call(state: State, arguments: Arguments) -> Any:
    return arguments.call(state.values["candidate"])


def _outputs(value: Any) -> list[Any]:
    return list(value[: MOST_OUTPUTS + 1]) if isinstance(value, tuple | list) else [value]


def _is_plain(value: object) -> bool:
    """Say whether this is a tensor and nothing more: one of a class of its own may compute as it is looked at."""
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided  # type: ignore[attr-defined]


def _backward(outputs: list[Any], arguments: Arguments, retain: bool) -> dict[str, Any]:
    """Give the gradient of every input that wants one, by label; None where there is none."""
    wanted = list(arguments.leaves)
    pairs = [
        (value, grad)
        for value, grad in zip(outputs, arguments.upstream, strict=False)
        if grad is not None and _is_plain(value) and value.requires_grad
    ]
    if not pairs or not wanted:
        return {f"gradient of {name}": None for name in wanted}
    grads = _grad(
        [value for value, _ in pairs],
        [arguments.leaves[name] for name in wanted],
        [grad for _, grad in pairs],
        retain_graph=retain,
        allow_unused=True,
    )
    return {f"gradient of {name}": grad for name, grad in zip(wanted, grads, strict=True)}


def _is_untouched(value: Any, watch: Watch, arguments: Arguments) -> bool:
    """Say whether no kernel was given this result's memory, and it is no input handed on either."""
    if not _is_plain(value) or value.numel() == 0 or watch.was_touched(value):
        return False
    return not arguments.shares(value) and bool((value != 0).any())


HANDLERS: dict[str, Handler] = {"start": start, "load": load, "run": run, "memory": memory}
