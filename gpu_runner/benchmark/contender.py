"""One contender in its own child, as the parent sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeGuard

import torch

from gpu_runner.benchmark.material import Secret
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.errors import ChildDied, ChildError, ChildFailed, ChildOutOfMemory, ChildTimeout, ProtocolError
from gpu_runner.session import ChildSession
from gpu_runner.verify.proof import CallForm, ChildCall

FAILURES = (ChildError, ChildDied, ChildTimeout, ChildOutOfMemory, ProtocolError)
FATAL = (ChildDied, ChildTimeout, ProtocolError)  # after these the child is gone
MOST_SAMPLES, LEAST_SAMPLES = 6, 3
TURN_US = 24_000.0  # how long one turn should take; slow contenders give fewer samples
HOST_SAMPLES = 12
HOST_MOST_S = 1.0
LEAST_WAIT_S = 20.0  # for an answer, before a contender counts as hanging


@dataclass
class Contender:
    """``error`` says why it cannot run; then it takes no more turns. One whose child is gone never comes back."""

    name: str
    session: ChildSession
    error: str | None = None
    gone: str | None = None
    short: bool = False  # whether the error is one of memory
    host_us: dict[Pass, float] = field(default_factory=dict)
    wall_us: dict[Pass, float] = field(default_factory=dict)
    peaks: dict[Pass, int | None] = field(default_factory=dict)
    wrong: dict[Pass, str] = field(default_factory=dict)
    overwrites: tuple[str, ...] = ()
    waits: set[Pass] = field(default_factory=set)  # passes in which the host waits for the device

    def load(self, module: str, symbol: str, form: CallForm, *, compiled: bool) -> None:
        facts = {"module": module, "symbol": symbol, "form": form.name, "init": list(form.init), "compiled": compiled}
        self._call("load", facts)
        # One that cannot be imported cannot run on any workload.
        self.gone = self.error

    def prepare(self, call: ChildCall, passes: list[Pass], places: int) -> None:
        """Prepare a workload; measurements and errors of the last one are dropped."""
        self.host_us, self.wall_us, self.peaks, self.wrong, self.waits = {}, {}, {}, {}, set()
        self.error, self.short = self.gone, False
        given = self._call("prepare", call.meta | {"passes": [item.value for item in passes], "places": places}, call)
        overwritten = given.get("overwritten", [])
        self.overwrites = tuple(str(item)[:80] for item in overwritten[:64]) if isinstance(overwritten, list) else ()

    def release(self) -> None:
        """Free the workload's memory; its results stay."""
        before, short = self.error, self.short
        self.error = self.gone
        self._call("release", {})
        self.error, self.short = self.gone or before, short

    def set_aside(self, reason: str) -> None:
        """Leave the workload to the others, and give them the memory."""
        self.release()
        self.error, self.short = self.gone or reason, False

    def warm(self, timed_pass: Pass) -> None:
        """Measure the host's share of a pass, which is also what the device has to wait for it."""
        facts = {"pass": timed_pass.value, "samples": HOST_SAMPLES, "most_s": HOST_MOST_S}
        given = self._call("host", facts, wait_s=self.patience_s(timed_pass))
        host, wall = given.get("host_us"), given.get("wall_us")
        if _is_time(host) and _is_time(wall):
            self.host_us[timed_pass], self.wall_us[timed_pass] = host, wall
            if given.get("waits") is True:
                self.waits.add(timed_pass)
        else:
            self.error = self.error or "it gave no times"

    def take_turn(self, timed_pass: Pass) -> list[float] | None:
        """Time one block; None where it could not. Units: microseconds."""
        wall = self.wall_us.get(timed_pass, TURN_US)
        samples = min(MOST_SAMPLES, max(LEAST_SAMPLES, int(TURN_US / wall)))
        facts = {"pass": timed_pass.value, "samples": samples, "warm_up": 2 if wall < TURN_US / MOST_SAMPLES else 1}
        times = self._call("block", facts, wait_s=self.patience_s(timed_pass)).get("device_us", [])
        if not isinstance(times, list) or len(times) != samples or not all(_is_time(item) for item in times):
            self.error = self.error or "it gave no times"
            return None
        return times

    def weigh(self, timed_pass: Pass) -> None:
        """Measure the peak memory of a pass; one that fails at it keeps the times that it has."""
        before = self.error
        peak = self._call("memory", {"pass": timed_pass.value}, wait_s=self.patience_s(timed_pass)).get("peak_bytes")
        self.peaks[timed_pass] = peak if type(peak) is int and peak >= 0 else None
        self.error = before

    def computed(self, timed_pass: Pass, secret: Secret) -> Computed | None:
        """The secret rows of its last results for one set of inputs; None where it cannot."""
        if self.error is not None:
            return None
        # What a backward pass is timed on, the forward's outputs, was checked in the pass that times it.
        meta = {"place": secret.place, "rows": secret.rows, "outputs": timed_pass is not Pass.backward}
        try:
            reply = self.session.call("check", meta)
            there = [bool(item) for item in reply.meta["gradients"]]
            shapes = [tuple(shape) for shape in reply.meta["shapes"]]
            unforeseen = tuple(str(item)[:80] for item in reply.meta["unforeseen"])
            rows = [buffer.to_torch() for buffer in reply.tensors]
            return Computed(int(reply.meta["outputs"]), there, shapes, rows, unforeseen)
        except FAILURES as error:
            self._failed(error)
        except (KeyError, TypeError, ValueError):
            self.error = "its answer is not of the form that the runner's own code gives"
        return None

    def patience_s(self, timed_pass: Pass) -> float:
        """Timeout of an answer: a contender that hangs must not take the others' time."""
        return LEAST_WAIT_S + 100 * self.wall_us.get(timed_pass, 0.0) * 1e-6

    def _call(
        self, method: str, meta: dict[str, Any], call: ChildCall | None = None, wait_s: float | None = None
    ) -> dict[str, Any]:
        if self.error is not None or self.gone is not None:
            return {}
        try:
            return self.session.call(method, meta, call.tensors if call else (), wait_s).meta
        except FAILURES as error:
            self._failed(error)
            return {}

    def _failed(self, error: ChildFailed | ProtocolError) -> None:
        self.error, self.short = _short(error), isinstance(error, ChildOutOfMemory)
        if isinstance(error, FATAL):
            self.gone = self.error


@dataclass(frozen=True)
class Computed:
    """The number of outputs, which gradients there are, of all in order the shape and rows; inputs overwritten unforeseen."""

    outputs: int
    gradients: list[bool]
    shapes: list[tuple[int, ...]]
    tensors: list[torch.Tensor]
    unforeseen: tuple[str, ...] = ()


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, float) and 0 < value < 1e12


def _short(error: ChildFailed | ProtocolError) -> str:
    flat = " ".join(str(error).split())
    return flat if len(flat) <= 300 else flat[:299] + "…"
