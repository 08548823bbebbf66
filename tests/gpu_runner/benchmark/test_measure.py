"""A whole benchmark, with the real roles and a clock that is told what to say."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from gpu_runner.benchmark import measure
from gpu_runner.child.input_sets import Ring
from gpu_runner.contracts import BenchmarkRequest, CandidateSource, Pass, RaceLength, SourceFile, Word, Workload
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.messages import (
    CheckRows,
    ComputeRows,
    LoadContender,
    MeasurePeak,
    PrepareContender,
    Request,
    TimeBlock,
    TimeHost,
)
from tests.gpu_runner.benchmark.stage import Room, Stage

PROBLEM = """
import torch

def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * torch.sigmoid(a) * b

INPUTS = {"a": "T H", "b": "T H"}
WORKLOADS = [{"T": 12, "H": 16}, {"T": 7, "H": 33}]
"""
# Its backward pass writes the gradients into the inputs that it saved, and its forward one into nothing.
INTO_INPUTS = """
import torch

class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.held = (a.detach(), b.detach())
        return a * torch.sigmoid(a) * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.held
        s = torch.sigmoid(a)
        da, db = grad * b * (s + a * s * (1 - s)), grad * a * s
        a.copy_(da)
        b.copy_(db)
        return a, b

def candidate(a, b):
    return Gate.apply(a, b)
"""
INTO_UPSTREAM = (
    INTO_INPUTS.replace("a.copy_(da)", "grad.copy_(da)")
    .replace("b.copy_(db)", "b.copy_(db)")
    .replace("return a, b\n", "return grad, b\n", 1)
)
WRONG = "import torch\n\ndef candidate(a, b):\n    return a * torch.sigmoid(a) * b + 1.0\n"
HONEST = "import torch\n\ndef candidate(a, b):\n    return a * torch.sigmoid(a) * b\n"


def source(text: str) -> CandidateSource:
    return CandidateSource((SourceFile("candidate.py", text),))


def request(candidate: str, original: str | None = None, **more: object) -> BenchmarkRequest:
    there = None if original is None else source(original)
    return BenchmarkRequest(PROBLEM, source(candidate), "float32", original=there, **more)  # type: ignore[arg-type]


COSTS = {"candidate": 103.0, "original": 100.0, "control": 100.0, "eager": 250.0, "torch_compile": 130.0}


def test_an_original_is_timed_beside_the_candidate_and_is_what_a_row_speaks_of(monkeypatch: pytest.MonkeyPatch) -> None:
    result = Stage(monkeypatch, COSTS).run(request(HONEST, HONEST))
    assert [(row.workload.label(), row.timed_pass.value) for row in result.rows] == [
        (f"{sizes}", timed_pass)
        for sizes in ("T=12 H=16", "T=7 H=33")
        for timed_pass in ("forward", "backward", "full")
    ]
    assert result.complete
    assert result.notes == ()
    first = result.rows[0]
    assert [timing.contender for timing in first.timings] == [
        "candidate",
        "original",
        "control",
        "eager",
        "torch_compile",
    ]
    assert {row.against for row in result.rows} == {"original"}
    assert {row.word for row in result.rows} == {Word.slower}
    assert first.speedup == pytest.approx(1 / 1.03, rel=0.003)
    assert {(found.baseline, found.word) for found in first.comparisons} == {
        ("original", Word.slower),
        ("eager", Word.faster),
        ("torch_compile", Word.faster),
    }
    assert first.control is not None
    assert (first.control.contender, first.control.baseline, first.control.word) == ("control", "original", Word.same)
    assert first.timings[0].peak_bytes == 64
    assert first.timings[0].host_us is not None
    assert first.bound == "memory"


def test_the_one_pass_that_a_request_gives_more_rounds_takes_them_and_the_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 1% apart, where no word is due: every race goes on for as long as it may.
    costs = COSTS | {"candidate": 101.0}
    lengths = (RaceLength("T=7 H=33", Pass.backward, 60),)
    asked = request(HONEST, HONEST, contenders=("original",), passes=(Pass.forward, Pass.backward), lengths=lengths)
    result = Stage(monkeypatch, costs).run(asked)
    blocks = {(row.workload.label(), row.timed_pass): row.timings[0].blocks for row in result.rows}
    assert blocks.pop(("T=7 H=33", Pass.backward)) == 120
    assert set(blocks.values()) == {80}


def one_pass(**more: object) -> BenchmarkRequest:
    sizes = (Workload((("T", 12), ("H", 16))),)
    return request(HONEST, HONEST, passes=(Pass.forward,), workloads=sizes, **more)


def test_a_small_difference_that_fresh_processes_do_not_have_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, COSTS | {"candidate": 98.0})
    stage.later = {"candidate": 102.0}
    result = stage.run(one_pass(contenders=("original",)))
    assert stage.starts[1:] == [("candidate", "original", "control")]
    row = result.rows[0]
    assert (row.word, row.against) == (Word.undecided, "original")
    assert (row.speedup, row.speedup_low, row.speedup_high) == (
        pytest.approx(1.0, abs=0.003),
        pytest.approx(1 / 1.02, rel=0.003),
        pytest.approx(1 / 0.98, rel=0.003),
    )
    (note,) = result.notes
    assert re.fullmatch(
        r"T=12 H=16, forward, against original: between 2\.\d% faster and 2\.\d% faster in one set of processes, "
        r"and was between [12]\.\d% slower and [12]\.\d% slower in fresh ones, so this is undecided\.",
        note,
    )


def test_a_small_difference_that_fresh_processes_have_too_keeps_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, COSTS)
    stage.later = {"candidate": 102.5}
    result = stage.run(one_pass())
    assert stage.starts[1:] == [("candidate", "original", "control")], "eager and torch.compile are far from it"
    row = result.rows[0]
    assert (row.word, row.comparisons[0].word, result.notes) == (Word.slower, Word.slower, ())
    assert row.comparisons[0].pairs == 20
    assert row.speedup_low == pytest.approx(1 / 1.03, rel=0.003)
    assert row.speedup_high == pytest.approx(1 / 1.025, rel=0.003)


def test_neither_a_large_difference_nor_none_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for cost in (100.0, 110.0):
        stage = Stage(monkeypatch, COSTS | {"candidate": cost})
        stage.run(one_pass())
        assert len(stage.starts) == 1


@pytest.mark.parametrize("method", [LoadContender, PrepareContender, TimeHost, TimeBlock])
def test_a_small_difference_that_cannot_be_measured_again_is_undecided(
    monkeypatch: pytest.MonkeyPatch, method: type[Request[Any]]
) -> None:
    stage = Stage(monkeypatch, COSTS)
    start_all = stage._start_all

    def later_dead(*args: Any) -> dict[str, Room]:
        found = start_all(*args)
        stage.dies = {"candidate": method}
        return found

    monkeypatch.setattr(measure, "start_all", later_dead)
    result = stage.run(one_pass())
    assert result.rows[0].word is Word.undecided
    assert result.rows[0].timings[0].median_us == pytest.approx(103.0, rel=0.01)
    assert "could not be measured again, so this is undecided" in result.notes[0]


def test_processes_that_do_not_start_again_cost_the_words_and_not_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, COSTS)
    start_all = stage._start_all

    def once(*args: Any) -> dict[str, Room]:
        if stage.starts:
            raise RunnerError("the files cannot be placed: No space left on device")
        return start_all(*args)

    monkeypatch.setattr(measure, "start_all", once)
    result = stage.run(one_pass())
    assert not result.complete
    assert (
        result.notes[0]
        == "small differences were not measured again, since no fresh processes could be started: the files cannot be placed: "
        "No space left on device"
    )
    assert [found.word for found in result.rows[0].comparisons] == [Word.undecided, Word.faster, Word.faster]


def test_without_an_original_the_control_is_the_candidate_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, COSTS | {"control": 103.0})
    result = stage.run(request(HONEST, contenders=("eager",), passes=(Pass.forward,)))
    first = result.rows[0]
    assert [timing.contender for timing in first.timings] == ["candidate", "control", "eager"]
    assert first.control is not None
    assert first.control.baseline == "candidate"
    assert (first.against, first.word) == ("eager", Word.faster)


@pytest.mark.parametrize("text", [INTO_INPUTS, INTO_UPSTREAM], ids=["inputs", "upstream"])
def test_what_a_contender_overwrites_is_put_back_before_every_run(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    result = Stage(monkeypatch, COSTS).run(request(text, text))
    assert result.notes == ()
    assert all(timing.error is None for row in result.rows for timing in row.timings)


def test_inputs_that_are_not_put_back_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ring, "restore", lambda self, place: None)
    result = Stage(monkeypatch, COSTS).run(request(INTO_INPUTS))
    assert "wrong" in str(result.rows[2].timings[0].error)


def test_a_wrong_candidate_has_no_time_and_a_wrong_original_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    result = Stage(monkeypatch, COSTS).run(request(WRONG, HONEST))
    candidate = result.rows[0].timings[0]
    assert candidate.median_us is None
    assert str(candidate.error).startswith("output 0 of a timed run is wrong: the error over the whole tensor is ")
    assert result.rows[0].comparisons == ()
    result = Stage(monkeypatch, COSTS).run(request(HONEST, WRONG))
    original = result.rows[0].timings[1]
    assert original.error is None
    assert original.median_us == pytest.approx(100.0, rel=0.01)
    assert result.notes[0].startswith(
        "T=12 H=16, forward: original keeps its time although output 0 of a timed run is wrong: the error over the whole"
    )


SCATTERED = HONEST.replace("* b", "* b * (1 + 1e-3 * (0.6 + 0.4 * torch.rand(()).item()))")


def test_where_the_original_scatters_its_successor_may_scatter_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    result = Stage(monkeypatch, COSTS).run(request(SCATTERED, SCATTERED))
    assert all(timing.error is None for row in result.rows for timing in row.timings)
    assert "original keeps its time" in result.notes[0]
    steady = SCATTERED.replace("torch.rand(()).item()", "0.0")
    worse = Stage(monkeypatch, COSTS).run(request(SCATTERED.replace("0.6", "1.3"), steady))
    assert "output 0 of a timed run is not exact enough" in str(worse.rows[0].timings[0].error)


@pytest.mark.parametrize(
    ("name", "method"),
    [("original", method) for method in (LoadContender, PrepareContender, TimeHost, TimeBlock, CheckRows, MeasurePeak)]
    + [("torch_compile", PrepareContender)],
)
def test_a_contender_that_dies_does_not_take_the_others_with_it(
    monkeypatch: pytest.MonkeyPatch, name: str, method: type[Request[Any]]
) -> None:
    stage = Stage(monkeypatch, COSTS)
    stage.dies = {name: method}
    result = stage.run(request(HONEST, HONEST, passes=(Pass.forward,)))
    assert [row.workload.label() for row in result.rows] == ["T=12 H=16", "T=7 H=33"]
    last = {timing.contender: timing for timing in result.rows[1].timings}
    assert last["candidate"].median_us is not None
    assert last["eager"].median_us is not None
    assert "signal 11" in str(last[name].error)
    assert last[name].median_us is None
    if method is MeasurePeak:
        assert result.rows[0].timings[1].median_us == pytest.approx(100.0, rel=0.01)
    against = "original" if name != "original" else "torch_compile"
    assert result.rows[1].against == against


def test_a_candidate_that_dies_leaves_the_times_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, COSTS)
    stage.dies = {"candidate": TimeBlock}
    result = stage.run(request(HONEST, HONEST, passes=(Pass.forward,)))
    assert all(row.timings[0].error for row in result.rows)
    assert all(row.timings[1].median_us for row in result.rows)
    assert all(row.word is Word.undecided and row.speedup is None for row in result.rows)


def test_a_reference_that_dies_leaves_the_times_unchecked_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, COSTS)
    stage.dies = {"reference": ComputeRows}
    result = stage.run(request(HONEST, HONEST, passes=(Pass.forward,)))
    assert not result.complete
    assert "the results of the timed runs were not checked" in result.notes[0]
    assert result.rows[0].timings[0].median_us is not None


def test_a_reference_that_died_is_started_again_for_the_next_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, COSTS)
    stage.dies = {"reference": ComputeRows}
    start_all = stage._start_all

    def once(*args: Any) -> dict[str, Room]:
        found = start_all(*args)
        stage.dies = {}
        return found

    monkeypatch.setattr(measure, "start_all", once)
    result = stage.run(request(WRONG, HONEST, passes=(Pass.forward,)))
    errors = [row.timings[0].error for row in result.rows]
    assert errors[0] is None
    assert "output 0 of a timed run is wrong" in str(errors[1])
    assert len([note for note in result.notes if "not checked" in note]) == 1


@pytest.mark.parametrize("text", [HONEST, WRONG], ids=["honest", "wrong"])
def test_a_reference_that_does_not_run_on_shapes_alone_is_run_for_its_outputs(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    reads = PROBLEM.replace("    return a *", "    float(a.detach().sum())\n    return a *")
    asked = replace(request(text, contenders=("eager",)), problem_source=reads)
    result = Stage(monkeypatch, COSTS).run(asked)
    assert len(result.rows) == 6
    assert {row.timings[0].error is None for row in result.rows[:1]} == {text is HONEST}


def test_a_budget_that_is_over_at_once_gives_one_workload_with_few_rounds_and_says_how_sure_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(monkeypatch, COSTS | {"candidate": 100.5})
    result = stage.run(request(HONEST, HONEST, budget_s=0.0))
    assert not result.complete
    assert {row.workload.label() for row in result.rows} == {"T=12 H=16"}
    assert [one.label() for one in result.untimed] == ["T=7 H=33"]


def test_a_time_under_the_floor_is_a_fault_and_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, COSTS | {"candidate": 1.0})
    big = (Workload((("T", 1024), ("H", 1024))),)
    row = stage.run(request(HONEST, HONEST, workloads=big, passes=(Pass.forward,))).rows[0]
    assert row.floor_us is not None
    assert row.floor_us > 10
    assert "under 90% of the floor" in str(row.fault)
    assert row.word is Word.undecided
    assert {found.word for found in row.comparisons} == {Word.undecided}
