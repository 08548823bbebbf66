"""Every action of the runner in one table: the contract that it takes and the function that carries it out."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_runner.context import RunContext
from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    CaptureRequest,
    DoctorRequest,
    ProfileRequest,
    RecordRequest,
    TestsRequest,
    TuneRequest,
    VerifyRequest,
    from_json,
    to_json,
)


@dataclass(frozen=True)
class ActionEntry:
    """``module`` has a function ``run(request, context)`` that gives the action's result."""

    request: type[Any]
    module: str


ACTIONS: dict[Action, ActionEntry] = {
    Action.capture: ActionEntry(CaptureRequest, "gpu_runner.capture"),
    Action.verify: ActionEntry(VerifyRequest, "gpu_runner.verify"),
    Action.benchmark: ActionEntry(BenchmarkRequest, "gpu_runner.benchmark"),
    Action.profile: ActionEntry(ProfileRequest, "gpu_runner.profiler"),
    Action.tune: ActionEntry(TuneRequest, "gpu_runner.tuning"),
    Action.record: ActionEntry(RecordRequest, "gpu_runner.recording"),
    Action.tests: ActionEntry(TestsRequest, "gpu_runner.suite"),
    Action.doctor: ActionEntry(DoctorRequest, "gpu_runner.doctor"),
}


def prepare(action: Action, payload: dict[str, Any]) -> Callable[[RunContext], dict[str, Any]]:
    """Check an action's request and give what carries it out; the modules of one action are loaded for it alone.

    Raises:
        ValueError: the payload is not of the action's form.
    """
    entry = ACTIONS[action]
    request = from_json(entry.request, payload)

    def carry_out(context: RunContext) -> dict[str, Any]:
        run: Callable[[Any, RunContext], object] = importlib.import_module(entry.module).run
        form: dict[str, Any] = to_json(run(request, context))
        return form

    return carry_out
