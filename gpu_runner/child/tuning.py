"""The role in which settings are tried: it puts them into the module's table, and times the candidate's passes with them.

Nothing here is proof: what comes of it is verified and measured again as a candidate of its own.
"""

from __future__ import annotations

import importlib
import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import torch

from gpu_runner.child.calls import Arguments
from gpu_runner.child.handlers import Answer, ChildState, Handler, start
from gpu_runner.child.input_sets import Ring, cold, given
from gpu_runner.child.interpreter import teach_interpreter, teach_libdevice, teach_maxima
from gpu_runner.contracts.tuning import TABLE
from gpu_runner.messages import (
    BlockTimes,
    LoadTuned,
    OpenDevice,
    PreparedTuning,
    PrepareTuning,
    Request,
    SumOnDevice,
    TimeSettings,
    TrySettings,
    TunedLoaded,
)
from gpu_runner.numerics.compare import FLOORS

# Taken before a candidate is imported, so that it is timed by what torch had then.
_grad = torch.autograd.grad
_synchronize = torch.cuda.synchronize
_Event = torch.cuda.Event
_record, _elapsed = torch.cuda.Event.record, torch.cuda.Event.elapsed_time
_sleep = getattr(torch.cuda, "_sleep", None)
_clock = time.perf_counter

SLEEP_CYCLES_PER_S = 1.5e9  # a little under the clock of current GPUs; the exact rate does not matter
SLEEP_LEAST_S, SLEEP_MOST_S = 5e-4, 0.02
EVERYTHING = 2**62
# Two settings may sum in another order. Source: Higham, Accuracy and Stability of Numerical Algorithms (2002), section 4.2:
# the error of a sum grows with the number of terms at worst and with its root as a rule; float32 sums of 2**16 terms stay below.
ROUNDINGS = 8  # times the floor of the verdict
LEAST_SUM_ERROR = 1e-4
CHUNK = 2**26


class NotingSize(int):
    """A size that is above all others, and notes what it is compared with: so the candidate tells by what it looks settings up."""

    seen: set[int]

    def __new__(cls) -> Self:
        """Make the bound."""
        made = super().__new__(cls, EVERYTHING)
        made.seen = set()
        return made

    def __ge__(self, other: int) -> bool:
        self.seen.add(int(other))
        return int(self) >= other

    def __gt__(self, other: int) -> bool:
        self.seen.add(int(other))
        return int(self) > other

    def __hash__(self) -> int:
        return super().__hash__()


@dataclass
class _Tuned:
    """One workload: its arguments in a ring of one set, and what the candidate gives with its default settings."""

    ring: Ring
    default: dict[str, list[Any]] = field(default_factory=dict)  # by pass
    ahead_s: dict[str, float] = field(default_factory=dict)

    @property
    def arguments(self) -> Arguments:
        """The set that is handed out."""
        return self.ring.sets[0]


def load(state: ChildState, request: LoadTuned, tensors: list[torch.Tensor]) -> Answer[TunedLoaded]:
    """Import the candidate and find the table in the module that holds it.

    Raises:
        LookupError: there is no such table.
    """
    if not state.gpu:
        teach_interpreter()
        teach_libdevice()
        teach_maxima()
    symbol: Any = importlib.import_module(request.module)
    for part in request.symbol.split("."):
        symbol = getattr(symbol, part)
    state.values["candidate"] = (
        symbol(*request.form.init).to(state.device) if request.form.name == "kernelbench" else symbol
    )
    holder = importlib.import_module(request.holder)
    names = [name for name, value in vars(holder).items() if name.endswith(TABLE) and isinstance(value, dict)]
    if not names:
        raise LookupError(f"the module {request.holder} has no dict {TABLE} at its top level")
    state.values["table"] = getattr(holder, TABLE if TABLE in names else names[0])
    state.values["defaults"] = _noted_defaults(holder)
    if not state.gpu:
        return TunedLoaded("cpu", None), []
    if torch.version.hip is not None:
        return TunedLoaded("cuda", torch.cuda.get_device_name()), []  # torch's name of the device is all there is
    major, minor = torch.cuda.get_device_capability()
    return TunedLoaded(f"sm_{major}{minor}", torch.cuda.get_device_name()), []


def prepare(state: ChildState, request: PrepareTuning, tensors: list[torch.Tensor]) -> Answer[PreparedTuning]:
    """Lay out a workload and run each pass with the default settings."""
    state.values.pop("tuned", None)
    if state.gpu:
        torch.cuda.empty_cache()
    ring = Ring(given(state, request.call, tensors), 1)
    ring.lay(random.Random())  # noqa: S311 - an address, not a secret
    tuned = _Tuned(ring)
    prepared = PreparedTuning({}, {})
    for name in ("forward", "backward") if request.backward else ("forward",):
        noted: dict[str, dict[str, int]] = state.values["defaults"]
        noted.clear()
        with _settings(state, request.architecture, {}) as bounds:
            tuned.default[name] = _copied(_once(state, tuned, name))
        prepared.sizes[name] = tuple(sorted(bounds[name].seen)[:64])
        prepared.defaults[name] = noted.get(name, {})
        ring.look(0)
    state.values["tuned"] = tuned
    return prepared, []


def attempt(state: ChildState, request: TrySettings, tensors: list[torch.Tensor]) -> Answer[str | None]:
    """Run a pass with settings, and compare what it gives with what the default ones give."""
    tuned: _Tuned = state.values["tuned"]
    wrong = None
    for _ in range(2):  # the first run also compiles; how long the second keeps the host is what timing has to hide
        with _settings(state, request.architecture, request.table):
            values = _once(state, tuned, request.timed_pass)
        wrong = wrong or _difference(tuned.default[request.timed_pass], values)
        tuned.ring.look(0)
    return wrong, []


def block(state: ChildState, request: TimeSettings, tensors: list[torch.Tensor]) -> Answer[BlockTimes]:
    """Time runs of a pass with settings, after some that do not count."""
    tuned: _Tuned = state.values["tuned"]
    name = request.timed_pass
    with _settings(state, request.architecture, request.table):
        runs = [_timed(state, tuned, name) for _ in range(request.warm_up + request.samples)]
        times = [read() for read in runs][request.warm_up :]
    return BlockTimes(tuple(times)), []


def alive(state: ChildState, request: SumOnDevice, tensors: list[torch.Tensor]) -> Answer[int]:
    """See whether the device still answers: after some faults of a kernel nothing in this process does."""
    return int(torch.ones(8, device=state.device).sum().item()), []


@contextmanager
def _settings(
    state: ChildState, architecture: str, chosen: dict[str, dict[str, int]]
) -> Iterator[dict[str, NotingSize]]:
    """Have the module look up these settings for every size; its own table stands there again afterwards."""
    table: dict[str, Any] = state.values["table"]
    kept = dict(table)
    bounds = {name: NotingSize() for name in ("forward", "backward")}
    table.clear()
    table[architecture] = {name: ((bound, dict(chosen.get(name, {}))),) for name, bound in bounds.items()}
    try:
        yield bounds
    finally:
        table.clear()
        table.update(kept)


def _noted_defaults(holder: Any) -> dict[str, dict[str, int]]:
    """Note what the module's lookup is given as its own settings, where it has a function for it."""
    noted: dict[str, dict[str, int]] = {}
    names = [name for name, value in vars(holder).items() if name.endswith("_tuned") and callable(value)]
    for name in names[:1]:
        original = getattr(holder, name)

        def lookup(device: Any, timed_pass: str, size: int, *, _original: Any = original, **settings: Any) -> Any:
            plain = {key: value for key, value in settings.items() if type(value) is int}
            noted.setdefault(str(timed_pass), plain)
            return _original(device, timed_pass, size, **settings)

        setattr(holder, name, lookup)
    return noted


def _forward(state: ChildState, tuned: _Tuned) -> list[Any]:
    value = tuned.arguments.call(state.values["candidate"])
    return list(value) if isinstance(value, tuple | list) else [value]


def _backward(tuned: _Tuned, outputs: list[Any]) -> list[Any]:
    given = tuned.arguments
    pairs = [(o, g) for o, g in zip(outputs, given.upstream, strict=False) if g is not None and o.requires_grad]
    if not pairs:
        raise RuntimeError("none of the outputs is connected to the inputs by autograd")
    grads = _grad([o for o, _ in pairs], list(given.leaves.values()), [g for _, g in pairs], allow_unused=True)
    return list(grads)


def _once(state: ChildState, tuned: _Tuned, name: str) -> list[Any]:
    tuned.ring.restore(0)
    outputs = _forward(state, tuned) if name == "backward" else []
    begin = _clock()
    values = _backward(tuned, outputs) if name == "backward" else _forward(state, tuned)
    if state.gpu:
        queued_s = _clock() - begin
        _synchronize()
        tuned.ahead_s[name] = min(SLEEP_MOST_S, max(SLEEP_LEAST_S, 2.0 * queued_s))
    return values


def _timed(state: ChildState, tuned: _Tuned, name: str) -> Callable[[], float]:
    """Run a pass once and give what reads its time in microseconds: the device's on a GPU, else the host's."""
    tuned.ring.restore(0)
    outputs = _forward(state, tuned) if name == "backward" else []
    if not state.gpu:
        begin = _clock()
        _step(state, tuned, name, outputs)
        took_us = (_clock() - begin) * 1e6
        return lambda: took_us
    cold(state).chill()
    # The device sleeps while the host queues the pass: what is timed is the device's work, not the launches.
    if _sleep is not None:
        _sleep(int(tuned.ahead_s.get(name, SLEEP_MOST_S) * SLEEP_CYCLES_PER_S))
    first, last = _Event(enable_timing=True), _Event(enable_timing=True)
    _record(first)
    _step(state, tuned, name, outputs)
    _record(last)

    def read() -> float:
        last.synchronize()
        return float(_elapsed(first, last)) * 1e3

    return read


def _step(state: ChildState, tuned: _Tuned, name: str, outputs: list[Any]) -> None:
    if name == "backward":
        _backward(tuned, outputs)
    else:
        _forward(state, tuned)


def _copied(values: list[Any]) -> list[Any]:
    return [value.detach().clone() if isinstance(value, torch.Tensor) else None for value in values]


def _difference(expected: list[Any], values: list[Any]) -> str | None:
    """Say which value differs from the default's beyond rounding, None where none does."""
    for place, (truth, value) in enumerate(zip(expected, values, strict=True)):
        if not isinstance(truth, torch.Tensor) or not isinstance(value, torch.Tensor):
            if isinstance(truth, torch.Tensor) != isinstance(value, torch.Tensor):
                return f"value {place} is missing"
            continue
        if value.shape != truth.shape or value.dtype != truth.dtype:
            return f"value {place} has another form"
        if not _is_close(truth, value.detach()):
            return f"value {place} differs from the default's"
    return None


def _is_close(truth: torch.Tensor, value: torch.Tensor) -> bool:
    """Say whether two orders of summation explain the difference, over the tensor and in every element."""
    if not truth.is_floating_point() or truth.dtype not in FLOORS:
        return bool(torch.equal(truth, value))
    floor = FLOORS[truth.dtype]
    tensor, element = (max(ROUNDINGS * part, LEAST_SUM_ERROR) for part in (floor.tensor, floor.element))
    pieces = list(zip(truth.reshape(-1).split(CHUNK), value.reshape(-1).split(CHUNK), strict=True))
    scale = _rms([exact.nan_to_num() for exact, _ in pieces])
    differences = []
    for exact, got in pieces:
        if not torch.equal(exact.isfinite(), got.isfinite()):
            return False
        off = (exact.nan_to_num().float() - got.nan_to_num().float()).abs()
        if bool((off > element * (exact.nan_to_num().float().abs() + scale)).any()):
            return False
        differences.append(float(off.square().mean()) * off.numel() if off.numel() else 0.0)
    return math.sqrt(math.fsum(differences) / max(1, truth.numel())) <= tensor * scale


def _rms(pieces: list[torch.Tensor]) -> float:
    squares = [float(piece.float().square().sum(dtype=torch.float64)) for piece in pieces]
    return math.sqrt(math.fsum(squares) / max(1, sum(piece.numel() for piece in pieces)))


HANDLERS: dict[type[Request[Any]], Handler] = {
    OpenDevice: start,
    LoadTuned: load,
    PrepareTuning: prepare,
    TrySettings: attempt,
    TimeSettings: block,
    SumOnDevice: alive,
}
