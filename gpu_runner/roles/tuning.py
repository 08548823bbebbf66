"""The role in which settings are tried: it puts them into the module's table, and times the candidate's passes with them.

Nothing here is proof: what comes of it is verified and measured again as a candidate of its own.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import torch

from gpu_runner.contracts.tuning import TABLE
from gpu_runner.roles import Handler, State
from gpu_runner.roles.arguments import Arguments, settle
from gpu_runner.roles.bfloat16 import teach_interpreter
from gpu_runner.roles.cold import cold
from gpu_runner.roles.device import start

Answer = tuple[dict[str, Any], list[torch.Tensor]]

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
ROUNDINGS = 8
LEAST_SUM_ERROR = 1e-4


class Bound(int):
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
    """One workload: its arguments, how they were sent, and what the candidate gives with its default settings."""

    arguments: Arguments
    pristine: list[torch.Tensor]
    backward: bool
    overwrites: bool = False
    default: dict[str, list[Any]] = field(default_factory=dict)  # by pass
    ahead_s: dict[str, float] = field(default_factory=dict)

    def restore(self) -> None:
        """Put back what a call may have overwritten."""
        for raw, source in zip(_held(self.arguments), self.pristine, strict=True):
            raw.copy_(source)


def load(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Import the candidate and find the table in the module that holds it.

    Raises:
        LookupError: there is no such table.
    """
    if not state.gpu:
        teach_interpreter()
    found: Any = importlib.import_module(meta["module"])
    for part in meta["symbol"].split("."):
        found = getattr(found, part)
    state.values["candidate"] = found(*meta["init"]).to(state.device) if meta["form"] == "kernelbench" else found
    holder = importlib.import_module(meta["holder"])
    names = [name for name, value in vars(holder).items() if name.endswith(TABLE) and isinstance(value, dict)]
    if not names:
        raise LookupError(f"the module {meta['holder']} has no dict {TABLE} at its top level")
    state.values["table"] = getattr(holder, TABLE if TABLE in names else names[0])
    state.values["defaults"] = _noted_defaults(holder)
    if not state.gpu:
        return {"architecture": "cpu", "gpu": None}, []
    if torch.version.hip is not None:
        return {
            "architecture": "cuda",
            "gpu": torch.cuda.get_device_name(),
        }, []  # torch's name of the device is all there is
    major, minor = torch.cuda.get_device_capability()
    return {"architecture": f"sm_{major}{minor}", "gpu": torch.cuda.get_device_name()}, []


def prepare(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Lay out a workload and run each pass with the default settings; gives by what sizes they were looked up, and the defaults."""
    state.values.pop("tuned", None)
    if state.gpu:
        torch.cuda.empty_cache()
    arguments = settle(state, meta, tensors, reuse=False)
    tuned = _Tuned(arguments, [raw.clone() for raw in _held(arguments)], meta["backward"])
    facts: dict[str, Any] = {"sizes": {}, "defaults": {}}
    for name in ("forward", "backward") if tuned.backward else ("forward",):
        noted: dict[str, dict[str, int]] = state.values["defaults"]
        noted.clear()
        with _settings(state, meta["architecture"], {}) as bounds:
            tuned.default[name] = _copied(_once(state, tuned, name))
        facts["sizes"][name] = sorted(bounds[name].seen)[:64]
        facts["defaults"][name] = noted.get(name, {})
        pairs = zip(_held(arguments), tuned.pristine, strict=True)
        tuned.overwrites |= not all(torch.equal(raw, source) for raw, source in _without_nan(pairs))
        tuned.restore()
    state.values["tuned"] = tuned
    return facts, []


def attempt(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Run a pass with settings, and hold what it gives against what the default gives; ``wrong`` says where they differ."""
    tuned: _Tuned = state.values["tuned"]
    wrong = None
    for _ in range(2):  # the first run also compiles; how long the second keeps the host is what timing has to hide
        with _settings(state, meta["architecture"], meta["table"]):
            values = _once(state, tuned, meta["pass"])
        wrong = wrong or _difference(tuned.default[meta["pass"]], values)
        if tuned.overwrites:
            tuned.restore()
    return {"wrong": wrong}, []


def block(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Time ``samples`` runs of a pass with settings, after ``warm_up`` that do not count."""
    tuned: _Tuned = state.values["tuned"]
    name = meta["pass"]
    with _settings(state, meta["architecture"], meta["table"]):
        runs = [_timed(state, tuned, name) for _ in range(meta["warm_up"] + meta["samples"])]
        times = [read() for read in runs][meta["warm_up"] :]
    return {"device_us": times}, []


def alive(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """See whether the device still answers: after some faults of a kernel nothing in this process does."""
    return {"sum": int(torch.ones(8, device=state.device).sum().item())}, []


@contextmanager
def _settings(state: State, architecture: str, chosen: dict[str, dict[str, int]]) -> Iterator[dict[str, Bound]]:
    """Have the module look up these settings for every size; its own table stands there again afterwards."""
    table: dict[str, Any] = state.values["table"]
    kept = dict(table)
    bounds = {name: Bound() for name in ("forward", "backward")}
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


def _held(arguments: Arguments) -> list[torch.Tensor]:
    return [*arguments.raw.values(), *arguments.raw_upstream]


def _forward(state: State, tuned: _Tuned) -> list[Any]:
    value = tuned.arguments.call(state.values["candidate"])
    return list(value) if isinstance(value, tuple | list) else [value]


def _backward(tuned: _Tuned, outputs: list[Any]) -> list[Any]:
    given = tuned.arguments
    pairs = [(o, g) for o, g in zip(outputs, given.upstream, strict=False) if g is not None and o.requires_grad]
    if not pairs:
        raise RuntimeError("none of the outputs is connected to the inputs by autograd")
    grads = _grad([o for o, _ in pairs], list(given.leaves.values()), [g for _, g in pairs], allow_unused=True)
    return list(grads)


def _once(state: State, tuned: _Tuned, name: str) -> list[Any]:
    outputs = _forward(state, tuned) if name == "backward" else []
    begin = _clock()
    values = _backward(tuned, outputs) if name == "backward" else _forward(state, tuned)
    if state.gpu:
        queued_s = _clock() - begin
        _synchronize()
        tuned.ahead_s[name] = min(SLEEP_MOST_S, max(SLEEP_LEAST_S, 2.0 * queued_s))
    return values


def _timed(state: State, tuned: _Tuned, name: str) -> Callable[[], float]:
    """Run a pass once and give what reads its time in microseconds: the device's on a GPU, else the host's."""
    if tuned.overwrites:
        tuned.restore()
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


def _step(state: State, tuned: _Tuned, name: str, outputs: list[Any]) -> None:
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
    if not truth.is_floating_point():
        return bool(torch.equal(truth, value))
    same = truth.isnan() == value.isnan()
    exact, got = truth.nan_to_num().float(), value.nan_to_num().float()
    scale = exact.square().mean().sqrt()
    relative = max(ROUNDINGS * torch.finfo(truth.dtype).eps, LEAST_SUM_ERROR)
    return bool(same.all() and ((exact - got).abs() <= relative * (exact.abs() + scale)).all())


def _without_nan(pairs: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    # The borders of every buffer are NaN, which equals nothing.
    for raw, source in pairs:
        yield (raw.nan_to_num(), source.nan_to_num()) if raw.is_floating_point() else (raw, source)


HANDLERS: dict[str, Handler] = {
    "start": start,
    "load": load,
    "prepare": prepare,
    "attempt": attempt,
    "block": block,
    "alive": alive,
}
