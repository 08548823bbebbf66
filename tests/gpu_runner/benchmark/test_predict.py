"""Without a GPU the floor is predicted for a named one, and nothing else is claimed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from gpu_runner import benchmark
from gpu_runner.context import RunContext
from gpu_runner.contracts import BenchmarkRequest, CandidateSource, Pass, RunnerError
from gpu_runner.session import has_gpu
from tests.problems import problem_source

CONTEXT = RunContext(Path(tempfile.gettempdir()))
without_gpu = pytest.mark.skipif(has_gpu(), reason="on a GPU the times are measured")


@without_gpu
def test_the_floor_is_predicted_and_no_time_is_invented() -> None:
    result = benchmark.run(BenchmarkRequest(problem_source("reglu"), CandidateSource(())), CONTEXT)
    assert result.predicted
    assert result.gpu == "NVIDIA H200"
    assert any("nothing was timed" in note for note in result.notes)
    assert [row.timed_pass for row in result.rows[:3]] == [Pass.forward, Pass.backward, Pass.full]
    first = result.rows[0]
    assert first.moved_bytes == 3 * 4096 * 14336 * 2
    assert first.floor_us == pytest.approx(83.4, abs=0.1)
    assert all(timing.median_us is None for row in result.rows for timing in row.timings)


@without_gpu
def test_a_table_that_is_indexed_need_not_be_read_as_a_whole() -> None:
    result = benchmark.run(BenchmarkRequest(problem_source("take_rows"), CandidateSource(())), CONTEXT)
    forward = result.rows[0]
    taken = 8192 * 4096 * 2
    assert forward.moved_bytes == 2 * taken + 8192 * 8


def test_a_problem_that_cannot_be_used_is_an_error() -> None:
    with pytest.raises(RunnerError, match="no `reference`"):
        benchmark.run(BenchmarkRequest("import torch\n", CandidateSource(())), CONTEXT)
