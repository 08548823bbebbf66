"""Calibration counts what the runner says, and plants what it was told to."""

from __future__ import annotations

from dataclasses import replace

from gpu_runner.contracts import (
    BenchmarkRequest,
    BenchmarkResult,
    Conditions,
    Pass,
    Timing,
    Word,
    WorkloadTiming,
)
from workers.calibration import CalibrationTools, Trials, calibrate

PROBLEM = """
import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x * 2


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 8, "H": 16}, {"T": 4096, "H": 8192}, {"T": 64, "H": 64}]
"""


class Machine:
    """Times that a test decides on: a planted wait is seen where ``sees`` says so."""

    def __init__(self, sees: bool = True, noisy: bool = False, predicted: bool = False) -> None:
        self.sees, self.noisy, self.predicted = sees, noisy, predicted
        self.asked: list[BenchmarkRequest] = []

    def race(self, request: BenchmarkRequest) -> BenchmarkResult:
        self.asked.append(request)
        is_planted = len(request.candidate.files) == 2
        word = Word.slower if is_planted and self.sees else Word.same
        rows = [self._row(request, timed, word, place) for timed in request.passes for place in request.workloads]
        if self.noisy and not is_planted:
            rows[0] = replace(rows[0], word=Word.faster)
        return BenchmarkResult(tuple(rows), self.predicted, "a GPU", 4000.0)

    def _row(self, request: BenchmarkRequest, timed: Pass, word: Word, workload: object) -> WorkloadTiming:
        timings = (Timing("candidate", 100.0), Timing("original", 100.0))
        speedup = 0.97 if word is Word.slower else 1.0
        where = request.workloads[0]
        conditions = Conditions(1980, 1980)
        return WorkloadTiming(where, timed, timings, 1, 1, 90.0, speedup, word=word, conditions=conditions)


def calibrated(machine: Machine, names: tuple[str, ...] = ("a", "b")):  # type: ignore[no-untyped-def]
    def write(_: str, name: str) -> str:
        if name == "refused":
            raise LookupError("it has no way to express `sort`")
        return "def candidate(x): ...\n"

    trials = Trials(comparisons=12, planted=5, slowdown=0.03)
    return calibrate([(name, PROBLEM) for name in names], trials, CalibrationTools(write, machine.race, lambda _: None))


def test_every_comparison_is_counted_and_the_largest_size_is_raced() -> None:
    machine = Machine()
    found = calibrated(machine)
    assert found.words == {Word.same: 12}
    assert found.planted == {Word.slower: 5}
    assert (found.false_words, found.detected) == (0, 5)
    assert {request.workloads[0].label() for request in machine.asked} == {"T=4096 H=8192"}


def test_planted_wait_is_the_share_of_the_time_in_cycles_of_the_clock_less_what_its_launch_takes() -> None:
    machine = Machine()
    calibrated(machine, ("a",))
    first, second = (request for request in machine.asked if len(request.candidate.files) == 2)
    cycles, seen = round(0.03 * 100.0 * 1980), 1 / 0.97 - 1
    assert f"_sleep({cycles})" in first.candidate.files[1].text
    assert f"_sleep({round(cycles * (2 - seen / 0.03))})" in second.candidate.files[1].text
    assert second.original is not None and second.original.module == "plain"


def test_false_word_is_told_and_what_was_missed_too() -> None:
    found = calibrated(Machine(sees=False, noisy=True))
    assert found.false_words == 2
    assert found.detected == 0


def test_problem_that_is_refused_is_left_out_by_name() -> None:
    found = calibrated(Machine(), ("refused", "a"))
    assert found.left_out == [("refused", "it has no way to express `sort`")]


def test_where_nothing_is_timed_one_kernel_is_tried_and_nothing_counted() -> None:
    found = calibrated(machine := Machine(predicted=True))
    assert not found.words and not found.left_out and len(machine.asked) == 1
