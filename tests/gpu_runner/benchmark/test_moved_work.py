"""Work that a backward leaves to its forward is right in every value: the times of both passes together have it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from triton.runtime.interpreter import GridExecutor

from gpu_runner.contracts import BenchmarkRequest, Pass, Word, Workload
from tests.cheats.trial import cheat, source_of_problem
from tests.gpu_runner.benchmark.stage import Stage
from tests.honest.table import source_of


def test_work_that_is_moved_from_a_backward_to_its_forward_shows_in_both_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(monkeypatch, {})
    _take_time_by_bytes(monkeypatch, stage)
    asked = BenchmarkRequest(
        source_of_problem("reglu"),
        cheat("backward_moved_forward"),
        "float32",
        original=source_of("reglu"),
        contenders=("original",),
        workloads=(Workload((("T", 8), ("I", 96))),),
    )
    result = stage.run(asked)
    rows = {row.timed_pass: row for row in result.rows}
    assert result.complete
    assert {name: row.word for name, row in rows.items()} == {
        Pass.forward: Word.slower,
        Pass.backward: Word.same,
        Pass.full: Word.slower,
    }
    # Forwards move 7 tensors against 3, backwards 5 each.
    assert rows[Pass.forward].speedup == pytest.approx(3 / 7, rel=0.02)
    assert rows[Pass.full].speedup == pytest.approx(8 / 12, rel=0.02)


def _take_time_by_bytes(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
    """Let each launch take a microsecond for each number of the tensors that it is given."""
    clock, launch = stage.clock, GridExecutor.__call__

    def timed(executor: GridExecutor, *arguments: Any, **constants: Any) -> None:
        launch(executor, *arguments, **constants)
        given = {each.data_ptr(): each.numel() for each in arguments if isinstance(each, torch.Tensor)}
        clock.now += sum(given.values()) * (1 + clock.stream.gauss(0, 0.003))

    monkeypatch.setattr(GridExecutor, "__call__", timed)
    monkeypatch.setattr(clock, "tick", lambda: clock.now)
