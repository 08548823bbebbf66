"""Where the seconds of an action went is told by name, whatever came of it."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest

from gpu_runner import spans
from gpu_runner.__main__ import carried_out
from gpu_runner.context import RunContext
from gpu_runner.contracts import Action, GpuRequest, RunnerError
from gpu_runner.messages import Echo
from gpu_runner.session import ChildSession


def test_spans_of_one_name_are_added_up_and_the_longest_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    spans.begin()
    for name, seconds in (("short", 1.5), ("long", 1.0), ("long", 2.0), ("nothing", 0.0004)):
        clock = iter((10.0, 10.0 + seconds))
        monkeypatch.setattr(time, "monotonic", lambda clock=clock: next(clock))
        with spans.span(name):
            pass
    monkeypatch.undo()
    assert spans.spent() == (("long", 3.0), ("short", 1.5))


def test_a_span_counts_where_it_ends_with_an_error() -> None:
    spans.begin()
    with pytest.raises(ValueError, match="here"), spans.span("fails"):
        time.sleep(0.01)
        raise ValueError("here")
    assert dict(spans.spent())["fails"] >= 0.01


def test_a_result_says_where_its_seconds_went_also_where_it_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def act(context: RunContext) -> dict[str, Any]:
        with ChildSession("echo", context.limits, name="the one") as session:
            session.call(Echo({}))
        raise RunnerError("after all")

    with caplog.at_level(logging.INFO, "gpu_runner"):
        result = carried_out(GpuRequest("r1", Action.verify, {}), act, tmp_path)
    names = [name for name, _ in result.seconds]
    assert result.error == "RunnerError: after all"
    assert "the one: opening" in names
    assert sum(seconds for _, seconds in result.seconds) <= result.duration_s + 0.01
    assert any("the one: opening" in record.message for record in caplog.records)


def test_an_action_does_not_tell_of_the_one_before_it(tmp_path: Path) -> None:
    with spans.span("before"):
        time.sleep(0.01)
    assert carried_out(GpuRequest("r2", Action.verify, {}), lambda context: {}, tmp_path).seconds == ()
