"""The role that is timed: one contender in its own process, device time by events, a cold L2 cache, the host ahead.

The parent hands out the turns, so that one contender at a time is on the GPU. What is timed is kept and checked afterwards.
"""

from __future__ import annotations

import gc
import importlib
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_runner.child.handlers import Answer, ChildState, Handler, start
from gpu_runner.child.input_sets import Ring, cold, sampled
from gpu_runner.child.input_sets import given as arguments_of
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.messages import (
    BlockTimes,
    CheckRows,
    ComputedRows,
    HostTimes,
    LoadContender,
    MeasurePeak,
    OpenDevice,
    PrepareContender,
    ReleaseWorkload,
    Request,
    TimeBlock,
    TimeHost,
)

# Taken before a contender is imported, so that it is timed by what torch had then.
_grad = torch.autograd.grad
_synchronize = torch.cuda.synchronize
_Event = torch.cuda.Event
_record, _elapsed, _query = torch.cuda.Event.record, torch.cuda.Event.elapsed_time, torch.cuda.Event.query
_sleep = getattr(torch.cuda, "_sleep", None)
_clock = time.perf_counter

SLEEP_CYCLES_PER_S = 2e9  # about the clock of current GPUs; the exact rate does not matter
SLEEP_LEAST_S = 2e-4
SLEEP_MOST_S = 0.05
HOST_AHEAD = 2.5  # times what the host usually needs to queue a pass
WAIT_S = 0.02  # of sleep, by which a pass is found that waits for the device
MOST_LATE = 3  # times the samples of a block that may be taken again because the host came too late


@dataclass
class _Timed:
    """One workload, ready to be run in a pass. What was computed last is kept by the place of its inputs in the ring."""

    ring: Ring
    turn: int = 0
    outputs: dict[int, list[Any]] = field(default_factory=dict)
    gradients: dict[int, list[Any]] = field(default_factory=dict)
    ahead_s: dict[Pass, float] = field(default_factory=dict)  # by pass; none where the pass waits for the device

    def forget(self) -> None:
        """Drop what was computed."""
        self.outputs.clear()
        self.gradients.clear()


def load(state: ChildState, request: LoadContender, tensors: list[torch.Tensor]) -> Answer[None]:
    """Import a contender: a candidate, or the problem's reference as it is or by ``torch.compile``."""
    module = importlib.import_module(request.module)
    symbol: Any = module
    for part in request.symbol.split("."):
        symbol = getattr(symbol, part)
    if request.form.name == "kernelbench":
        symbol = symbol(*request.form.init).to(state.device)
    state.values["plain"] = symbol
    state.values["compiled"] = request.compiled
    if request.compiled:
        _import_compiler()
    return None, []


def prepare(state: ChildState, request: PrepareContender, tensors: list[torch.Tensor]) -> Answer[tuple[str, ...]]:
    """Lay out a workload and its ring of inputs, run each pass so that everything is compiled, and see what is overwritten."""
    state.values.pop("timed", None)
    torch.cuda.empty_cache()
    state.values["callable"] = _callable(state)
    ring = Ring(arguments_of(state, request.call, tensors), request.places)
    timed = state.values["timed"] = _Timed(ring)
    ring.lay(_stream(state))
    for name in request.passes:
        step, ready = _steps(state, timed, name)
        for _ in range(ring.places):
            step(ready())
            _synchronize()
            ring.look(timed.turn)
    timed.forget()
    return tuple(ring.overwritten), []


def release(state: ChildState, request: ReleaseWorkload, tensors: list[torch.Tensor]) -> Answer[None]:
    """Releases the memory of the workload, also of one that could not be laid out to its end."""
    state.values.pop("timed", None)
    gc.collect()
    torch.cuda.empty_cache()
    return None, []


def host(state: ChildState, request: TimeHost, tensors: list[torch.Tensor]) -> Answer[HostTimes]:
    """Time the host as it queues a pass, with the device idle before."""
    timed: _Timed = state.values["timed"]
    step, ready = _steps(state, timed, request.timed_pass)
    queued, whole = [], []
    begin = _clock()
    for number in range(request.samples):
        given = ready()
        _synchronize()
        before = _clock()
        step(given)
        after = _clock()
        _synchronize()
        queued.append(after - before)
        whole.append(_clock() - before)
        if number >= 2 and _clock() - begin > request.most_s:
            break
    typical = statistics.median(queued[1:] or queued)
    waits = _waits(step, ready, typical)
    timed.ahead_s[request.timed_pass] = 0.0 if waits else min(SLEEP_MOST_S, max(SLEEP_LEAST_S, HOST_AHEAD * typical))
    return HostTimes(typical * 1e6, statistics.median(whole[1:] or whole) * 1e6, waits), []


def _waits(step: Callable[[Any], None], ready: Callable[[], Any], typical_s: float) -> bool:
    """Say whether a pass waits for the device, such as by ``item()``: then queueing it takes as long as the device sleeps before.

    The host cannot be ahead of such a pass, so its time is taken with nothing before it, the host's share included.
    """
    if _sleep is None:
        return False
    for _ in range(2):  # what waits does so each time; an allocation, which may wait too, is there the second time
        given = ready()
        _synchronize()
        begin = _clock()
        _sleep(int(WAIT_S * SLEEP_CYCLES_PER_S))
        step(given)
        queued = _clock() - begin
        _synchronize()
        if queued <= typical_s + 0.7 * WAIT_S:
            return False
    return True


def block(state: ChildState, request: TimeBlock, tensors: list[torch.Tensor]) -> Answer[BlockTimes]:
    """Time runs of one pass, after some that do not count."""
    timed: _Timed = state.values["timed"]
    timed.forget()
    timed.ring.lay(_stream(state))
    step, ready = _steps(state, timed, request.timed_pass)
    chilled = cold(state)
    chilled.begin()
    runs = request.warm_up + request.samples
    pairs: list[tuple[Any, Any]] = []
    late = 0
    gc.disable()
    try:
        while len(pairs) < runs:
            ahead_s = timed.ahead_s.get(request.timed_pass, SLEEP_MOST_S)
            given = ready()
            chilled.chill()
            # The device sleeps while the host queues the whole step: what is timed is the device's work, not the launches.
            if _sleep is not None and ahead_s:
                _sleep(int(ahead_s * SLEEP_CYCLES_PER_S))
            begin, end = _Event(enable_timing=True), _Event(enable_timing=True)
            _record(begin)
            step(given)
            _record(end)
            given = None
            if _sleep is not None and ahead_s and late < MOST_LATE * runs and _query(begin):
                # The device woke before the whole step was queued, so that its waiting would be in the time.
                late += 1
                timed.ahead_s[request.timed_pass] = min(SLEEP_MOST_S, 1.5 * ahead_s)
                continue
            pairs.append((begin, end))
        _synchronize()
    finally:
        gc.enable()
    times = [_elapsed(begin, end) * 1e3 for begin, end in pairs]
    return BlockTimes(tuple(times[request.warm_up :]), late), []


def memory(state: ChildState, request: MeasurePeak, tensors: list[torch.Tensor]) -> Answer[int]:
    """The peak bytes that one run of a pass takes beyond what was there when it began."""
    timed: _Timed = state.values["timed"]
    timed.forget()
    step, ready = _steps(state, timed, request.timed_pass)
    given = ready()
    _synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step(given)
    _synchronize()
    return torch.cuda.max_memory_allocated() - before, []


def check(state: ChildState, request: CheckRows, tensors: list[torch.Tensor]) -> Answer[ComputedRows]:
    """Rows of what was computed last, in a timed run, for one set of inputs; and what was overwritten unforeseen."""
    timed: _Timed = state.values["timed"]
    outputs = timed.outputs.get(request.place, []) if request.outputs else []
    gradients = timed.gradients.get(request.place, [])
    values = [value for value in [*outputs, *gradients] if isinstance(value, torch.Tensor)]
    computed = ComputedRows(
        len(outputs),
        tuple(grad is not None for grad in gradients),
        tuple(tuple(value.shape) for value in values),
        timed.ring.look(request.place),
    )
    return computed, [sampled(value, request.rows) for value in values]


def _import_compiler() -> None:
    """Import what ``torch.compile`` would at its first call: it takes seconds, and they pass while the other children start."""
    importlib.import_module("torch._inductor.compile_fx")


def _stream(state: ChildState) -> random.Random:
    stream: random.Random = state.values.setdefault("stream", random.Random())  # noqa: S311 - addresses, not a secret
    return stream


def _callable(state: ChildState) -> Callable[..., Any]:
    plain: Callable[..., Any] = state.values["plain"]
    if not state.values["compiled"]:
        return plain
    from torch._inductor import config

    config.compile_threads = 1  # the sandbox is no place for a pool of processes
    torch.compiler.reset()
    compiled: Callable[..., Any] = torch.compile(plain, dynamic=False)
    return compiled


def _steps(state: ChildState, timed: _Timed, name: Pass) -> tuple[Callable[[Any], None], Callable[[], Any]]:
    """What is timed, and what makes ready for it outside of the time: inputs as they were laid, and the forward's outputs."""
    function = state.values["callable"]

    def forward(place: int) -> list[Any]:
        value = timed.ring.sets[place].call(function)
        outputs = list(value) if isinstance(value, tuple | list) else [value]
        timed.outputs[place] = outputs
        return outputs

    def backward(place: int, outputs: list[Any]) -> None:
        given = timed.ring.sets[place]
        pairs = [(o, g) for o, g in zip(outputs, given.upstream, strict=False) if g is not None and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of the outputs is connected to the inputs by autograd")
        leaves = list(given.leaves.values())
        grads = _grad([o for o, _ in pairs], leaves, [g for _, g in pairs], allow_unused=True)
        timed.gradients[place] = list(grads)

    def ready() -> Any:
        place = timed.turn = (timed.turn + 1) % timed.ring.places
        timed.outputs.pop(place, None)  # the memory of the last turn is used again, as in training
        timed.gradients.pop(place, None)
        timed.ring.restore(place)
        return (place, forward(place)) if name is Pass.backward else (place, None)

    def step(given: Any) -> None:
        place, outputs = given
        if name is not Pass.backward:
            outputs = forward(place)
        if name is not Pass.forward:
            backward(place, outputs)
            timed.outputs[place] = [output.detach() for output in outputs]

    return step, ready


HANDLERS: dict[type[Request[Any]], Handler] = {
    OpenDevice: start,
    LoadContender: load,
    PrepareContender: prepare,
    TimeHost: host,
    TimeBlock: block,
    MeasurePeak: memory,
    ReleaseWorkload: release,
    CheckRows: check,
}
