"""Words on simulated machines: none is false, and a slowdown of three percent is found."""

from __future__ import annotations

from collections import Counter

import pytest

from gpu_runner.benchmark.conditions import GpuReading
from gpu_runner.benchmark.race import LOOKS, Race, RaceQuestion, looks_of
from gpu_runner.benchmark.repeat import needs_repeat, repeated
from gpu_runner.contracts import Comparison, Word
from tests.gpu_runner.benchmark.machine import Machine, run

QUIET = Machine(sample=0.005, turn=0.001)
USUAL = Machine(sample=0.01, turn=0.003)
ROUGH = Machine(sample=0.02, turn=0.006, drift=0.05, jump=0.03, outliers=0.05)
MEASURED = Machine(sample=0.01, turn=0.003, process=0.005)  # kernels of 20 to 100 us on H200s, 2026-11-29
TIMES_US = (7.0, 20.0, 60.0, 250.0, 1000.0)
PAIR = RaceQuestion("candidate", ("original",), ("control", "original"))
GOOD = GpuReading(1980, 3201, 45, ("sw_power_cap",))


def times(base: float, slower: float = 1.0) -> dict[str, float]:
    return {"candidate": base * slower, "original": base, "control": base}


@pytest.mark.parametrize("machine", [QUIET, USUAL, ROUGH], ids=["quiet", "usual", "rough"])
def test_no_false_word_in_two_hundred_comparisons_of_a_kernel_with_itself(machine: Machine) -> None:
    said: Counter[Word] = Counter()
    for seed in range(200):
        race = run(times(TIMES_US[seed % len(TIMES_US)]), machine, seed, PAIR)
        said[race.comparisons()[0].word] += 1
    assert said[Word.faster] == said[Word.slower] == 0
    if machine is not ROUGH:
        assert said[Word.same] >= 195


@pytest.mark.parametrize("machine", [QUIET, USUAL, ROUGH], ids=["quiet", "usual", "rough"])
def test_a_slowdown_of_three_percent_is_found_in_at_least_38_of_40_tries(machine: Machine) -> None:
    races = [run(times(TIMES_US[seed % len(TIMES_US)], 1.03), machine, 1000 + seed, PAIR) for seed in range(40)]
    assert sum(race.comparisons()[0].word is Word.slower for race in races) >= 38
    assert all(race.comparisons()[0].word is not Word.faster for race in races)


def twice(costs: dict[str, float], seed: int) -> tuple[Comparison, Comparison]:
    """One race, and what is said after a second in fresh processes where one is due."""
    first = run(costs, MEASURED, seed, PAIR).comparisons()[0]
    if not needs_repeat(first, waits=False):
        return first, first
    return first, repeated(first, run(costs, MEASURED, seed + 50_000, PAIR).comparisons()[0])


def test_what_processes_differ_by_gets_a_word_in_one_race_and_none_in_two() -> None:
    pairs = [twice(times(TIMES_US[1 + seed % 2]), seed) for seed in range(300)]
    once, again = (sum(pair[number].word in (Word.faster, Word.slower) for pair in pairs) for number in (0, 1))
    assert once > 3
    assert again == 0
    slower = [twice(times(TIMES_US[1 + seed % 2], 1.04), 1000 + seed)[1] for seed in range(40)]
    assert sum(one.word is Word.slower for one in slower) >= 36


@pytest.mark.parametrize(
    ("units", "looks"), [(1, (10,)), (40, LOOKS), (160, (10, 20, 40, 80, 160)), (10**6, (10, 20, 40, 80, 160))]
)
def test_the_looks_of_a_longer_race_are_as_few_and_further_apart(units: int, looks: tuple[int, ...]) -> None:
    assert looks_of(units) == looks


def test_what_is_clear_is_settled_at_the_first_look_and_takes_no_more_time() -> None:
    race = run(times(60.0, 1.3), QUIET, 1, PAIR)
    assert len(race.units) == LOOKS[0]


def test_a_baseline_whose_word_is_settled_leaves_and_the_open_one_goes_on() -> None:
    question = RaceQuestion("candidate", ("original", "eager"), ("control", "original"))
    race = run(times(60.0, 1.012) | {"eager": 150.0}, USUAL, 3, question)
    assert len(race.units) > LOOKS[0]
    eager = next(found for found in race.comparisons() if found.baseline == "eager")
    assert (eager.word, eager.pairs) == (Word.faster, LOOKS[0])
    assert len(race.blocks("candidate")) == 2 * len(race.units)


def test_a_round_in_which_the_gpu_was_throttled_does_not_count() -> None:
    race = Race(["candidate", "original", "control"], PAIR)
    for number in range(2 * LOOKS[0]):
        bad = number in (3, 8)
        for name in race.order():
            race.add(name, [5000.0 if bad and name == "candidate" else 100.0] * 6)
        race.close(GpuReading(1980, 3201, 80, ("hw_thermal_slowdown",)) if bad else GOOD)
    assert len(race.kept()) == LOOKS[0] - 2
    assert max(max(block) for block in race.blocks("candidate")) == 100.0
    assert race.comparisons()[0].pairs == LOOKS[0] - 2


def test_where_every_round_was_disturbed_the_times_stand_and_nothing_is_compared() -> None:
    race = Race(["candidate", "original", "control"], PAIR)
    for _ in range(2 * LOOKS[0]):
        for name in race.order():
            race.add(name, [100.0] * 6)
        race.close(GpuReading(1980, 3201, 90, ("hw_slowdown",)))
    assert race.comparisons() == ()
    assert race.control() is None
    assert len(race.blocks("candidate")) == 2 * LOOKS[0]


@pytest.mark.parametrize("turn", [0, 1])
def test_a_neighbours_bursts_in_one_turn_of_each_unit_get_no_word(turn: int) -> None:
    race = Race(["candidate", "original", "control"], PAIR)
    for number in range(2 * LOOKS[0]):
        for name in race.order():
            race.add(name, [3000.0 if name == "candidate" and number % 2 == turn else 450.0] * 6)
        race.close(GOOD)
    assert race.comparisons()[0].word is Word.undecided


def test_a_candidate_that_differs_by_less_than_its_control_gets_no_word() -> None:
    """A control that is itself 4% off, for whatever reason, forbids a word for a candidate that is 4% off."""
    race = run({"candidate": 104.0, "original": 100.0, "control": 104.0}, QUIET, 5, PAIR)
    assert race.comparisons()[0].word is Word.undecided


def test_a_difference_below_the_clocks_own_step_gets_no_word() -> None:
    race = run(times(2.0, 1.02), QUIET, 6, PAIR)
    assert race.comparisons()[0].word not in (Word.faster, Word.slower)


def test_a_contender_that_failed_takes_no_more_turns_and_the_race_ends() -> None:
    race = Race(["candidate", "original", "control"], PAIR)
    race.drop("original")
    while not race.finished:
        order = race.order()
        assert "original" not in order
        for name in order:
            race.add(name, [100.0] * 6)
        race.close(None)
    assert len(race.units) == LOOKS[0]
    assert race.comparisons() == ()
