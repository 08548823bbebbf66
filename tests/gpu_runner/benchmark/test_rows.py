"""What a row says of a race, what is noted beside it, and how a race keeps to its time."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from gpu_runner.benchmark import notes
from gpu_runner.benchmark.contest import LEAST_UNITS, run_race
from gpu_runner.benchmark.race import LOOKS, Race, RaceQuestion, entries, question
from gpu_runner.benchmark.roofline import PassWork, TimeFloor
from gpu_runner.benchmark.rows import ContenderStatus, Finish, row
from gpu_runner.contracts import BenchmarkRequest, CandidateSource, Pass, RunnerError, Word, Workload
from tests.gpu_runner.benchmark.machine import Machine, run

WORKLOAD = Workload((("T", 7),))
HERE = CandidateSource(())
TIMES = {"candidate": 90.0, "original": 100.0, "control": 100.0, "eager": 80.0}
QUESTION = RaceQuestion("candidate", ("original", "eager"), ("control", "original"))


FLOOR = TimeFloor(50.0, "memory", 40.0)


def finish(race: Race, floor: TimeFloor = FLOOR, **accounts: ContenderStatus) -> Finish:
    return Finish(WORKLOAD, Pass.forward, race, accounts, PassWork(1000, 900, 10, 20), floor)


def test_a_row_speaks_of_the_original_even_where_another_baseline_is_faster() -> None:
    made = row(finish(run(TIMES, Machine(), 1, QUESTION)))
    assert (made.against, made.word) == ("original", Word.faster)
    assert {found.baseline: found.word for found in made.comparisons} == {
        "original": Word.faster,
        "eager": Word.slower,
    }
    assert (made.moved_bytes, made.flops, made.bound, made.fault) == (1000, 30, "memory", None)


def test_where_the_original_failed_the_row_speaks_of_the_fastest_baseline() -> None:
    made = row(finish(run(TIMES, Machine(), 1, QUESTION), original=ContenderStatus("it ended")))
    assert made.against == "eager"
    assert made.control is None
    assert made.timings[1].error == "it ended"


def test_a_baseline_below_the_floor_is_named_and_is_compared_with_nothing() -> None:
    made = row(finish(run(TIMES, Machine(), 1, QUESTION), TimeFloor(99.0, "memory", 95.0)))
    assert str(made.fault).startswith("eager: ")
    assert {found.baseline: found.word for found in made.comparisons}["eager"] is Word.undecided
    assert {found.baseline: found.word for found in made.comparisons}["original"] is Word.faster


def test_a_time_between_the_sure_floor_and_the_floor_is_no_fault() -> None:
    assert row(finish(run(TIMES, Machine(), 1, QUESTION), TimeFloor(120.0, "memory", 60.0))).fault is None


def test_who_takes_part_follows_from_the_request() -> None:
    both = entries(BenchmarkRequest("", HERE, original=HERE))
    assert [entry.name for entry in both] == ["candidate", "original", "control", "eager", "torch_compile"]
    assert question(tuple(entry.name for entry in both)).control == ("control", "original")
    compiled = entries(BenchmarkRequest("", HERE, compiled=True))
    assert [(one.name, one.compiled) for one in compiled] == [
        ("candidate", True),
        ("control", True),
        ("eager", False),
        ("torch_compile", True),
    ]
    alone = entries(BenchmarkRequest("", HERE, contenders=("torch_compile",)))
    assert [(entry.name, entry.compiled) for entry in alone][2] == ("torch_compile", True)
    assert question(tuple(entry.name for entry in alone)).control == ("control", "candidate")
    with pytest.raises(RunnerError, match="no contender 'fastest'"):
        entries(BenchmarkRequest("", HERE, contenders=("fastest",)))


class Runner:
    """A contender that always takes as long."""

    error: str | None = None

    def __init__(self, time_us: float) -> None:
        self.time_us, self.stream = time_us, random.Random(int(time_us))

    def warm(self, timed_pass: Pass) -> None:
        return

    def take_turn(self, timed_pass: Pass) -> list[float]:
        return [self.time_us * (1 + self.stream.gauss(0, 0.01)) for _ in range(6)]


@pytest.mark.parametrize(("share_s", "units"), [(0.0, LEAST_UNITS), (20.0, LOOKS[0]), (24.0, 11), (1e9, LOOKS[-1])])
def test_a_race_that_is_not_settled_ends_with_its_time(share_s: float, units: int) -> None:
    ticks = itertools.count()
    runners: dict[str, Any] = {"candidate": Runner(101.0), "original": Runner(100.0), "control": Runner(100.0)}
    race = Race(list(runners), RaceQuestion("candidate", ("original",), ("control", "original")))
    run_race(race, runners, Pass.forward, share_s, lambda: None, lambda: next(ticks) * 2.0)
    assert len(race.units) == units


def test_a_race_that_ended_early_says_how_sure_it_is() -> None:
    race = Race(["candidate", "original"], RaceQuestion("candidate", ("original",)))
    runner = {"candidate": Runner(103.0), "original": Runner(100.0)}
    for _ in range(2 * LEAST_UNITS):
        for name in race.order():
            race.add(name, runner[name].take_turn(Pass.forward))
        race.close(None)
    said = notes.early(WORKLOAD, Pass.forward, race)
    assert said is not None
    assert said.startswith("T=7, forward: the time budget ended after 8 of at most 80 rounds: against ")
    assert "against original between" in said
    assert "slower" in said


def test_fewer_than_six_pairs_give_no_word_however_clear_they_look() -> None:
    race = Race(["candidate", "original"], RaceQuestion("candidate", ("original",)))
    for number in range(2 * 6):
        if number == 2 * 5:
            assert race.comparisons()[0].word is Word.undecided
        for name in race.order():
            race.add(name, [150.0 if name == "candidate" else 100.0] * 6)
        race.close(None)
    assert race.comparisons()[0].word is Word.slower
