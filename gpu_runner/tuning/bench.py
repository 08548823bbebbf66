"""The candidate in its child, as the tuner sees it: what ends the child costs one try, not the search."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from gpu_runner.context import RunContext
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.tuning import TuneRequest
from gpu_runner.errors import ChildDied, ChildError, ChildFailed, ChildOutOfMemory, ChildTimeout, ProtocolError
from gpu_runner.session import ChildSession
from gpu_runner.tuning.settings import Settings
from gpu_runner.verify.opening import candidate_session, opened
from gpu_runner.verify.proof import CallForm, ChildCall

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
    _call: ChildCall | None = None
    _chosen: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def laid(self) -> ChildCall | None:
        """The workload that the child is prepared for."""
        return self._call

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
        meta = {
            "module": source.module,
            "symbol": source.symbol,
            "form": self.form.name,
            "init": list(self.form.init),
            "holder": self.request.module or source.module,
        }
        facts = self._session.call("load", meta).meta
        self.architecture = str(facts.get("architecture"))[:20]
        self.gpu = None if facts.get("gpu") is None else str(facts["gpu"])[:100]

    def close(self) -> None:
        """End the child; may be called twice."""
        if self._entered is not None:
            self._entered.__exit__(None, None, None)
        elif self._session is not None:
            self._session.close()
        self._entered, self._session = None, None

    def prepare(self, call: ChildCall) -> dict[str, Any]:
        """Prepare a workload; returns the sizes by which settings were looked up, and the defaults, by pass.

        Raises:
            ChildFailed: the candidate does not run with its default settings.
        """
        self._call = call
        self._chosen = {}
        return self._asked("prepare", {**call.meta, "architecture": self.architecture}, call, PREPARE_S)

    def choose(self, tuned_pass: Pass, settings: Settings) -> None:
        """Keep settings for a pass from now on, whatever the other pass tries."""
        self._chosen[tuned_pass.value] = dict(settings)

    def attempt(self, tuned_pass: Pass, settings: Settings) -> str | None:
        """Compile and run once; gives why the settings cannot be used, None where they can.

        Raises:
            Worn: there have been too many restarts.
        """
        facts, failure = self._tried("attempt", tuned_pass, settings, ATTEMPT_S, {})
        if failure is not None:
            return failure
        wrong = facts.get("wrong")
        return None if wrong is None else str(wrong)[:200]

    def block(self, tuned_pass: Pass, settings: Settings) -> list[float] | None:
        """Times of a few runs; None where they failed.

        Raises:
            Worn: there have been too many restarts.
        """
        more = {"samples": SAMPLES, "warm_up": WARM_UP}
        facts, failure = self._tried("block", tuned_pass, settings, ATTEMPT_S, more)
        times = facts.get("device_us")
        if failure is not None or not isinstance(times, list) or len(times) != SAMPLES:
            return None
        return times if all(isinstance(item, float) and item > 0 for item in times) else None

    def _tried(
        self, method: str, tuned_pass: Pass, settings: Settings, timeout_s: float, more: dict[str, Any]
    ) -> tuple[dict[str, Any], str | None]:
        table = {**self._chosen, tuned_pass.value: dict(settings)}
        meta = {"pass": tuned_pass.value, "architecture": self.architecture, "table": table, **more}
        try:
            return self._asked(method, meta, None, timeout_s), None
        except FAILURES as failure:
            self._recover(failure)
            return {}, _short(failure)

    def _asked(self, method: str, meta: dict[str, Any], call: ChildCall | None, timeout_s: float) -> dict[str, Any]:
        if self._session is None:
            raise Worn("the child is gone")
        return self._session.call(method, meta, call.tensors if call else (), timeout_s=timeout_s).meta

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
        if self.restarts > MOST_RESTARTS or self._call is None:
            raise Worn(f"the candidate's process ended {self.restarts} times")
        try:
            self.open()
            self.prepare(self._call)
        except FAILURES as again:
            raise Worn(f"the candidate does not start again: {_short(again)}") from again
        self._chosen = chosen

    def _answers(self) -> bool:
        try:
            return self._asked("alive", {}, None, 10.0).get("sum") == 8
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
