"""The role in which a candidate runs: it gets inputs, fills outputs and gradients, and judges nothing."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from gpu_runner.roles import Handler, State
from gpu_runner.roles.arguments import Arguments, settle
from gpu_runner.roles.autotuning import take_the_first, take_the_first_that_launches
from gpu_runner.roles.bfloat16 import teach_interpreter
from gpu_runner.roles.device import start
from gpu_runner.roles.libdevice import teach_libdevice
from gpu_runner.roles.maxima import teach_maxima
from gpu_runner.roles.steps import Reply, Steps, backward, is_plain, outputs_of
from gpu_runner.verify.remembered import Births
from gpu_runner.verify.watch import Watch, watch_launches

# Taken before a candidate is imported, so that it calls what torch had then.
_synchronize = torch.cuda.synchronize

Answer = tuple[dict[str, Any], list[torch.Tensor]]
_current: list[Watch] = []


def load(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Import the candidate; a ``ModelNew`` is built with ``meta["init"]``.

    ``meta["untimed"]``: its kernels are not tuned by time. For what is judged by, never for what is judged.
    """
    if not state.gpu:
        teach_interpreter()
        teach_libdevice()
        teach_maxima()
        take_the_first()
    elif meta["untimed"]:
        take_the_first_that_launches()
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
    steps = Steps(state.values["candidate"], meta, tensors, arguments, watch, Reply())
    _current.append(watch)
    try:
        with watch:
            kept = steps.all()
        if state.gpu:
            _synchronize()
        facts = {
            "launched": watch.launched,
            "launches": watch.launches,
            "computed": watch.computed,
            "remembered": watch.remembered,
            "broken": watch.broken_guards(),
            "untouched": [label for label, value in kept.items() if _is_untouched(value, watch, arguments)],
            **steps.facts(),
        }
    finally:
        _current.pop()
    held = [*arguments.raw.values(), *arguments.raw_upstream]
    facts |= {"values": steps.reply.entries, "raw": list(arguments.raw), "raw_upstream": len(arguments.raw_upstream)}
    return facts, [*steps.reply.tensors, *held]


def warm(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Run forward and backward once on a case that nobody judges, so that what is compiled is there; watched like any run."""
    arguments = settle(state, meta, tensors)
    watch = Watch(str(state.work), meta["poison"], state.values.setdefault("births", Births()))
    steps = Steps(state.values["candidate"], meta, tensors, arguments, watch, Reply())
    _current.append(watch)
    try:
        with watch:
            steps.warm()
        if state.gpu:
            _synchronize()
    finally:
        _current.pop()
    if state.gpu:
        torch.cuda.empty_cache()  # others are at work on the device
    return {}, []


def memory(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Give the peak bytes of GPU memory that forward and backward take beyond what was there; unwatched."""
    if not state.gpu:
        return {}, []
    arguments = settle(state, meta, tensors)
    peaks: dict[str, Any] = {"forward": None, "backward": None}
    _synchronize()
    for _ in range(2):  # the first run also compiles
        before = _reset_peak()
        outputs = outputs_of(arguments.call(state.values["candidate"]))
        peaks["forward"] = torch.cuda.max_memory_allocated() - before
        if meta["backward"]:
            _reset_peak()
            backward(outputs, arguments, retain=False)
            peaks["backward"] = torch.cuda.max_memory_allocated() - before
        del outputs
    return peaks, []


def _reset_peak() -> int:
    _synchronize()
    torch.cuda.reset_peak_memory_stats()
    return int(torch.cuda.memory_allocated())


def _is_untouched(value: Any, watch: Watch, arguments: Arguments) -> bool:
    """Say whether no kernel was given this result's memory, and it is no input handed on either."""
    if not is_plain(value) or value.numel() == 0 or watch.was_touched(value):
        return False
    return not arguments.shares(value) and bool((value != 0).any())


HANDLERS: dict[str, Handler] = {"start": start, "load": load, "run": run, "warm": warm, "memory": memory}
