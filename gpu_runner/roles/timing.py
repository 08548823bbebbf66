"""The role that is timed: one contender in its own process, device time by events, a cold L2 cache, the host ahead.

The parent hands out the turns, so that one contender at a time is on the GPU. What is timed is kept and checked afterwards.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_runner.roles import Handler, State
from gpu_runner.roles.arguments import Arguments, settle
from gpu_runner.roles.device import start

Answer = tuple[dict[str, Any], list[torch.Tensor]]

# Taken before a contender is imported, so that it is timed by what torch had then.
_grad = torch.autograd.grad
_synchronize = torch.cuda.synchronize
_Event = torch.cuda.Event
_record, _elapsed = torch.cuda.Event.record, torch.cuda.Event.elapsed_time
_sleep = getattr(torch.cuda, "_sleep", None)
_clock = time.perf_counter
_zero = torch.Tensor.zero_

RING = 3  # sets of inputs that take turns
COLD_LEAST_BYTES = 2**27
BANDWIDTH_BYTES = 2**31
SLEEP_CYCLES_PER_S = 1.5e9  # a little under the clock of current GPUs; the exact rate does not matter
SLEEP_LEAST_S = 1e-3


@dataclass
class _Timed:
    """One workload, ready to be run in a pass."""

    ring: list[Arguments]
    backward: bool
    turn: int = 0
    outputs: dict[int, list[Any]] = field(default_factory=dict)
    gradients: dict[int, list[Any]] = field(default_factory=dict)
    ahead_s: float = SLEEP_LEAST_S


def load(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Import a contender: the candidate, or the problem's reference as it is or by ``torch.compile``."""
    module = importlib.import_module(meta["module"])
    found: Any = module
    for part in meta["symbol"].split("."):
        found = getattr(found, part)
    if meta["form"] == "kernelbench":
        found = found(*meta["init"]).to(state.device)
    state.values["plain"] = found
    state.values["compiled"] = bool(meta["compiled"])
    return {}, []


def prepare(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Lay out a workload and its ring of inputs, and run each pass once, so that everything is compiled."""
    state.values.pop("timed", None)
    torch.cuda.empty_cache()
    state.values["callable"] = _callable(state)
    first = settle(state, meta, tensors, reuse=False)
    ring = [first.rolled(place) for place in range(RING)]
    timed = _Timed(ring, meta["backward"])
    state.values["timed"] = timed
    for _ in ring:
        step, ready = _steps(state, timed, "full" if timed.backward else "forward")
        step(ready())
    _synchronize()
    start = _clock()
    step(ready())
    timed.ahead_s = max(SLEEP_LEAST_S, 2.0 * (_clock() - start))
    _synchronize()
    return {}, []


def block(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Time ``meta["samples"]`` runs of one pass after ``meta["warm_up"]`` that do not count."""
    timed: _Timed = state.values["timed"]
    step, ready = _steps(state, timed, meta["pass"])
    cold = _cold(state)
    pairs = []
    for _ in range(meta["warm_up"] + meta["samples"]):
        given = ready()
        _zero(cold)
        # The device sleeps while the host queues the whole step: what is timed is the device's work, not the launches.
        if _sleep is not None:
            _sleep(int(timed.ahead_s * SLEEP_CYCLES_PER_S))
        start, end = _Event(enable_timing=True), _Event(enable_timing=True)
        _record(start)
        step(given)
        _record(end)
        pairs.append((start, end))
    _synchronize()
    times = [_elapsed(start, end) * 1e3 for start, end in pairs]
    return {"device_us": times[meta["warm_up"] :]}, []


def memory(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Give the peak bytes that one run of a pass takes beyond what was there."""
    timed: _Timed = state.values["timed"]
    timed.outputs.clear()
    timed.gradients.clear()
    step, ready = _steps(state, timed, meta["pass"])
    given = ready()
    _synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step(given)
    _synchronize()
    return {"peak_bytes": torch.cuda.max_memory_allocated() - before}, []


def check(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Give what was computed last, in a timed run, for one set of inputs of the ring."""
    timed: _Timed = state.values["timed"]
    place = meta["place"]
    outputs, gradients = timed.outputs.get(place, []), timed.gradients.get(place, [])
    values = [value for value in [*outputs, *gradients] if isinstance(value, torch.Tensor)]
    facts = {"outputs": len(outputs), "gradients": [grad is not None for grad in gradients]}
    return facts, [value.detach().contiguous() for value in values]


def bandwidth(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Measure what a copy in device memory reaches, read and write counted."""
    free, _ = torch.cuda.mem_get_info()
    size = min(BANDWIDTH_BYTES, free // 8)
    source = torch.zeros(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    times = []
    for _ in range(12):
        start, end = _Event(enable_timing=True), _Event(enable_timing=True)
        _record(start)
        target.copy_(source)
        _record(end)
        _synchronize()
        times.append(_elapsed(start, end))
    best = sorted(times[2:])[len(times[2:]) // 2]
    properties = torch.cuda.get_device_properties(0)
    facts = {
        "gbps": 2 * size / (best * 1e-3) / 1e9,
        "gpu": properties.name,
        "l2_bytes": int(getattr(properties, "L2_cache_size", 0)),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
    }
    del source, target
    torch.cuda.empty_cache()
    return facts, []


def _callable(state: State) -> Callable[..., Any]:
    plain: Callable[..., Any] = state.values["plain"]
    if not state.values["compiled"]:
        return plain
    from torch._inductor import config

    config.compile_threads = 1  # the sandbox is no place for a pool of processes
    torch.compiler.reset()
    compiled: Callable[..., Any] = torch.compile(plain, dynamic=False)
    return compiled


def _cold(state: State) -> torch.Tensor:
    if "cold" not in state.values:
        l2_bytes = int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0))
        size = max(2 * l2_bytes, COLD_LEAST_BYTES)
        state.values["cold"] = torch.empty(size, dtype=torch.int8, device="cuda")
    cold: torch.Tensor = state.values["cold"]
    return cold


def _steps(state: State, timed: _Timed, name: str) -> tuple[Callable[[Any], None], Callable[[], Any]]:
    """Give what is timed, and what makes ready for it outside of the time."""
    function = state.values["callable"]

    def forward(place: int) -> list[Any]:
        value = timed.ring[place].call(function)
        outputs = list(value) if isinstance(value, tuple | list) else [value]
        timed.outputs[place] = outputs
        return outputs

    def backward(place: int, outputs: list[Any]) -> None:
        given = timed.ring[place]
        pairs = [(o, g) for o, g in zip(outputs, given.upstream, strict=False) if g is not None and o.requires_grad]
        leaves = list(given.leaves.values())
        grads = _grad([o for o, _ in pairs], leaves, [g for _, g in pairs], allow_unused=True)
        timed.gradients[place] = list(grads)

    def ready() -> Any:
        place = timed.turn = (timed.turn + 1) % len(timed.ring)
        timed.outputs.pop(place, None)  # the memory of the last turn is used again, as in training
        timed.gradients.pop(place, None)
        return (place, forward(place)) if name == "backward" else (place, None)

    def step(given: Any) -> None:
        place, outputs = given
        if name != "backward":
            outputs = forward(place)
        if name != "forward":
            backward(place, outputs)
            timed.outputs[place] = [output.detach() for output in outputs]

    return step, ready


HANDLERS: dict[str, Handler] = {
    "start": start,
    "load": load,
    "prepare": prepare,
    "block": block,
    "memory": memory,
    "check": check,
    "bandwidth": bandwidth,
}
