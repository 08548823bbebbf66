"""The candidate in its child, as the tuner sees it: what ends the child costs one try, not the search."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_runner.buffers import Buffer
from gpu_runner.context import RunContext
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.tuning import TuneRequest
from gpu_runner.errors import ChildDied, ChildError, ChildFailed, ChildOutOfMemory, ChildTimeout, ProtocolError
from gpu_runner.messages import (
    CallForm,
    LoadTuned,
    PreparedTuning,
    PrepareTuning,
    R,
    Request,
    SettingsTable,
    SumOnDevice,
    TimeSettings,
    TrySettings,
)
from gpu_runner.session import ChildSession
from gpu_runner.tuning.plan import TuningJob
from gpu_runner.tuning.settings import Settings
from gpu_runner.verify.opening import candidate_session, opened

FAILURES = (ChildError, ChildDied, ChildTimeout, ChildOutOfMemory, ProtocolError)
MOST_RESTARTS = 4
ATTEMPT_S = 12.0  # to compile and run once; what takes longer is no setting that anybody wants
PREPARE_S = 120.0
SAMPLES, WARM_UP = 8, 2


class Worn(Exception):  # noqa: N818 - an expected end, not an error
    """The child ended more often than it may, or does not run with its default settings."""


@dataclass
class TuningBench:
    """One child after the other with the same candidate."""

    request: TuneRequest
    form: CallForm
    context: RunContext
    architecture: str | None = None
    gpu: str | None = None
    restarts: int = 0
    _session: ChildSession | None = None
    _entered: Any = None
    _job: TuningJob | None = None
    _chosen: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def laid(self) -> TuningJob | None:
        """The workload that the child is prepared for."""
        return self._job

    def open(self, session: ChildSession | None = None) -> None:
        """Import the candidate in a child that was started for it, else in a new one.

        Raises:
            ChildFailed: the candidate cannot be imported, or has no table. RunnerError: the host is at fault.
        """
        source = self.request.candidate
        if session is None:
            self._entered = opened(candidate_session("tuning", source, self.context), self.context)
            session = self._entered.__enter__()
        self._session = session
        asked = LoadTuned(source.module, source.symbol, self.form, self.request.module or source.module)
        loaded = self._session.call(asked).message
        self.architecture, self.gpu = loaded.architecture, loaded.gpu

    def close(self) -> None:
        """End the child; may be called twice."""
        if self._entered is not None:
            self._entered.__exit__(None, None, None)
        elif self._session is not None:
            self._session.close()
        self._entered, self._session = None, None

    def prepare(self, job: TuningJob) -> PreparedTuning:
        """Prepare a workload; returns the sizes by which settings were looked up, and the defaults, by pass.

        Raises:
            ChildFailed: the candidate does not run with its default settings.
        """
        self._job = job
        self._chosen = {}
        asked = PrepareTuning(job.call.call, self.architecture or "", job.backward)
        return self._asked(asked, PREPARE_S, job.call.tensors)

    def choose(self, tuned_pass: Pass, settings: Settings) -> None:
        """Keep settings for a pass from now on, whatever the other pass tries."""
        self._chosen[tuned_pass.value] = dict(settings)

    def attempt(self, tuned_pass: Pass, settings: Settings) -> str | None:
        """Compile and run once; gives why the settings cannot be used, None where they can.

        Raises:
            Worn: there have been too many restarts.
        """
        asked = TrySettings(tuned_pass, self.architecture or "", self._table(tuned_pass, settings))
        try:
            return self._asked(asked, ATTEMPT_S)
        except FAILURES as failure:
            self._recover(failure)
            return _short(failure)

    def block(self, tuned_pass: Pass, settings: Settings) -> list[float] | None:
        """Times of a few runs; None where they failed.

        Raises:
            Worn: there have been too many restarts.
        """
        table = self._table(tuned_pass, settings)
        try:
            times = self._asked(
                TimeSettings(tuned_pass, self.architecture or "", table, SAMPLES, WARM_UP), ATTEMPT_S
            ).device_us
        except FAILURES as failure:
            self._recover(failure)
            return None
        return list(times) if len(times) == SAMPLES and min(times) > 0 else None

    def _table(self, tuned_pass: Pass, settings: Settings) -> SettingsTable:
        return {**self._chosen, tuned_pass.value: dict(settings)}

    def _asked(self, request: Request[R], timeout_s: float, tensors: Sequence[Buffer] = ()) -> R:
        if self._session is None:
            raise Worn("the child is gone")
        return self._session.call(request, tensors, timeout_s).message

    def _recover(self, failure: ChildFailed | ProtocolError) -> None:
        """Go on in the same child where its device still answers, else in a new one.

        Raises:
            Worn: there have been too many, or the new one does not start.
        """
        if isinstance(failure, ChildError | ChildOutOfMemory) and self._answers():
            return
        self.restarts += 1
        chosen = self._chosen
        self.close()
        if self.restarts > MOST_RESTARTS or self._job is None:
            raise Worn(f"the candidate's process ended {self.restarts} times")
        try:
            self.open()
            self.prepare(self._job)
        except FAILURES as again:
            raise Worn(f"the candidate does not start again: {_short(again)}") from again
        self._chosen = chosen

    def _answers(self) -> bool:
        try:
            return self._asked(SumOnDevice(), 10.0) == 8
        except FAILURES:
            return False


@dataclass(frozen=True)
class PassMeter:
    """The bench for one pass, with a time at which it is over. A ``Meter``."""

    bench: TuningBench
    tuned_pass: Pass
    deadline: float  # in terms of ``time.monotonic``

    def attempt(self, settings: Settings) -> str | None:
        """Compile and run once; gives why it cannot be used, None where it can."""
        return self.bench.attempt(self.tuned_pass, settings)

    def block(self, settings: Settings) -> list[float] | None:
        return self.bench.block(self.tuned_pass, settings)

    def left_s(self) -> float:
        return self.deadline - time.monotonic()


def _short(failure: ChildFailed | ProtocolError) -> str:
    flat = " ".join(str(failure).split())
    return flat if len(flat) <= 200 else flat[:199] + "…"
