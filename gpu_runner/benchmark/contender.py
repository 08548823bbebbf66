"""One contender in its own child, as the parent sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from gpu_runner.benchmark.material import Secret
from gpu_runner.buffers import Buffer
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.errors import (
    ChildDied,
    ChildError,
    ChildFailed,
    ChildOutOfMemory,
    ChildTimeout,
    MalformedReply,
    ProtocolError,
)
from gpu_runner.messages import (
    CallForm,
    CheckRows,
    LoadContender,
    MeasurePeak,
    PrepareContender,
    R,
    ReleaseWorkload,
    Request,
    TimeBlock,
    TimeHost,
    WorkloadCall,
)
from gpu_runner.session import ChildSession
from gpu_runner.verify.proof import ChildCall

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
    wrong: bool = False  # whether the error is that its results are
    overwrites: tuple[str, ...] = ()
    waits: set[Pass] = field(default_factory=set)  # passes in which the host waits for the device

    def load(self, module: str, symbol: str, form: CallForm, *, compiled: bool) -> None:
        self._call(LoadContender(module, symbol, form, compiled))
        # One that cannot be imported cannot run on any workload.
        self.gone = self.error

    def prepare(self, call: ChildCall[WorkloadCall], passes: list[Pass], places: int) -> None:
        """Prepare a workload; measurements and errors of the last one are dropped."""
        self.host_us, self.wall_us, self.peaks, self.waits = {}, {}, {}, set()
        self.error, self.short, self.wrong = self.gone, False, False
        overwritten = self._call(PrepareContender(call.call, tuple(passes), places), call.tensors)
        self.overwrites = (overwritten or ())[:64]

    def release(self) -> None:
        """Free the workload's memory; its results stay."""
        before, short = self.error, self.short
        self.error = self.gone
        self._call(ReleaseWorkload())
        self.error, self.short = self.gone or before, short

    def set_aside(self, reason: str) -> None:
        """Leave the workload to the others, and give them the memory."""
        self.release()
        self.error, self.short = self.gone or reason, False

    def warm(self, timed_pass: Pass) -> None:
        """Measure the host's share of a pass, which is also what the device has to wait for it."""
        asked = TimeHost(timed_pass, HOST_SAMPLES, HOST_MOST_S)
        times = self._call(asked, wait_s=self.patience_s(timed_pass))
        if times is not None and _is_time(times.host_us) and _is_time(times.wall_us):
            self.host_us[timed_pass], self.wall_us[timed_pass] = times.host_us, times.wall_us
            if times.waits:
                self.waits.add(timed_pass)
        else:
            self.error = self.error or "it returned no times"

    def take_turn(self, timed_pass: Pass) -> list[float] | None:
        """Time one block; None where it could not. Units: microseconds."""
        wall = self.wall_us.get(timed_pass, TURN_US)
        samples = min(MOST_SAMPLES, max(LEAST_SAMPLES, int(TURN_US / wall)))
        asked = TimeBlock(timed_pass, samples, warm_up=2 if wall < TURN_US / MOST_SAMPLES else 1)
        times = self._call(asked, wait_s=self.patience_s(timed_pass))
        if times is None or len(times.device_us) != samples or not all(map(_is_time, times.device_us)):
            self.error = self.error or "it returned no times"
            return None
        return list(times.device_us)

    def weigh(self, timed_pass: Pass) -> None:
        """Measure the peak memory of a pass; one that fails at it keeps the times that it has."""
        before = self.error
        peak = self._call(MeasurePeak(timed_pass), wait_s=self.patience_s(timed_pass))
        self.peaks[timed_pass] = peak if peak is not None and peak >= 0 else None
        self.error = before

    def computed(self, timed_pass: Pass, secret: Secret) -> Computed | None:
        """The secret rows of its last results for one set of inputs; None where it cannot."""
        if self.error is not None:
            return None
        # What a backward pass is timed on, the forward's outputs, was checked in the pass that times it.
        asked = CheckRows(secret.place, secret.rows, outputs=timed_pass is not Pass.backward)
        try:
            reply = self.session.call(asked)
        except FAILURES as error:
            self._failed(error)
            return None
        message, rows = reply.message, [buffer.to_torch() for buffer in reply.tensors]
        return Computed(message.outputs, list(message.gradients), list(message.shapes), rows, message.unforeseen)

    def patience_s(self, timed_pass: Pass) -> float:
        """Timeout of an answer: a contender that hangs must not take the others' time."""
        return LEAST_WAIT_S + 100 * self.wall_us.get(timed_pass, 0.0) * 1e-6

    def _call(self, request: Request[R], tensors: Sequence[Buffer] = (), wait_s: float | None = None) -> R | None:
        if self.error is not None or self.gone is not None:
            return None
        try:
            return self.session.call(request, tensors, wait_s).message
        except FAILURES as error:
            self._failed(error)
            return None

    def _failed(self, error: ChildFailed | ProtocolError) -> None:
        self.error, self.short = _short(error), isinstance(error, ChildOutOfMemory)
        if isinstance(error, FATAL) and not isinstance(error, MalformedReply):
            self.gone = self.error


@dataclass(frozen=True)
class Computed:
    """The number of outputs, which gradients there are, of all in order the shape and rows; inputs overwritten unforeseen."""

    outputs: int
    gradients: list[bool]
    shapes: list[tuple[int, ...]]
    tensors: list[torch.Tensor]
    unforeseen: tuple[str, ...] = ()


def _is_time(value: float) -> bool:
    return 0 < value < 1e12


def _short(error: ChildFailed | ProtocolError) -> str:
    flat = " ".join(str(error).split())
    return flat if len(flat) <= 300 else flat[:299] + "…"
