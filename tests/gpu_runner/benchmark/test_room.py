"""Where a GPU has no memory for all contenders at once, what matters least is left out, and the candidate has its time."""

from __future__ import annotations

import pytest

from gpu_runner.benchmark.contest import NO_ROOM
from gpu_runner.contracts import BenchmarkResult, Pass, Word
from gpu_runner.messages import PrepareContender, ReleaseWorkload
from tests.gpu_runner.benchmark.stage import Memory, Stage
from tests.gpu_runner.benchmark.test_measure import COSTS, HONEST, request

NEEDS = {"candidate": 10, "original": 10, "control": 10, "eager": 60, "torch_compile": 20}


def measured(monkeypatch: pytest.MonkeyPatch, total: int, needs: dict[str, int]) -> BenchmarkResult:
    return Stage(monkeypatch, COSTS, Memory(total, needs)).run(request(HONEST, HONEST, passes=(Pass.forward,)))


def errors(result: BenchmarkResult) -> list[dict[str, str]]:
    return [{timing.contender: timing.error for timing in row.timings if timing.error} for row in result.rows]


def test_eager_makes_room_and_everybody_else_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    result = measured(monkeypatch, 100, NEEDS)
    assert errors(result) == [{"eager": NO_ROOM}] * 2
    assert all(row.word is Word.slower and row.against == "original" for row in result.rows)
    assert "T=12 H=16: eager was left out: not enough GPU memory next to the other contenders." in result.notes
    assert result.complete


def test_both_baselines_make_room_where_it_takes_both(monkeypatch: pytest.MonkeyPatch) -> None:
    result = measured(monkeypatch, 100, {**NEEDS, "candidate": 75})
    assert errors(result) == [{"eager": NO_ROOM, "torch_compile": NO_ROOM}] * 2
    assert all(row.speedup is not None for row in result.rows)


def test_rather_than_a_candidate_its_control_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    result = measured(monkeypatch, 100, {**NEEDS, "candidate": 85})
    assert errors(result) == [{"eager": NO_ROOM, "torch_compile": NO_ROOM, "control": NO_ROOM}] * 2
    assert all(row.word is Word.slower and row.control is None for row in result.rows)


def test_a_candidate_for_which_there_is_no_memory_at_all_says_so_in_the_devices_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = measured(monkeypatch, 100, {**NEEDS, "candidate": 101})
    assert all("out of memory" in found["candidate"] for found in errors(result))
    assert all(row.speedup is None for row in result.rows)


def test_without_an_original_the_control_is_left_out_before_what_the_candidate_is_compared_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(monkeypatch, COSTS, Memory(95, {**NEEDS, "control": 20}))
    result = stage.run(request(HONEST, passes=(Pass.forward,)))
    assert errors(result) == [{"control": NO_ROOM}] * 2
    assert all({one.baseline for one in row.comparisons} == {"eager", "torch_compile"} for row in result.rows)


def test_where_there_is_memory_for_all_nobody_is_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, COSTS, Memory(110, NEEDS))
    result = stage.run(request(HONEST, HONEST, passes=(Pass.forward,)))
    assert errors(result) == [{}] * 2
    assert all(room.calls.count(PrepareContender) == 2 for name, room in stage.rooms.items() if name in NEEDS)
    assert all(ReleaseWorkload not in room.calls for room in stage.rooms.values())
