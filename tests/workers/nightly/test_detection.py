"""A night's number is a candidate only where it leaves the series' own band or its level moved; a comparison decides."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runner.contracts import Word
from tests.workers.nightly.numbers import point
from workers.nightly.detection import (
    Candidate,
    Change,
    NightEvidence,
    SeriesState,
    band,
    compared,
    look,
)
from workers.nightly.series import Metric, Point
from workers.nightly.simulation import QUIET, SCENARIOS, Scenario, simulate

TIME = Metric.time_us


def nights(*values: float) -> list[Point]:
    return [point(number, value) for number, value in enumerate(values)]


def noisy(count: int, sigma: float, seed: int = 0, level: float = 100.0) -> list[float]:
    stream = random.Random(seed)
    return [level * math.exp(stream.gauss(0, sigma)) for _ in range(count)]


def revision(place: int) -> str:
    return point(place).revision


def test_a_quiet_series_has_a_band_of_one_percent_and_a_noisy_one_of_its_own() -> None:
    assert band(nights(*[100.0] * 20)).high == pytest.approx(1.01)
    assert band(nights(*noisy(40, 0.02))).high > 1.05
    assert band(nights(100.0, 100.0)).high == pytest.approx(1.03), "a short past says nothing of a series' noise"


def test_four_percent_in_a_quiet_series_is_a_candidate_in_the_same_night() -> None:
    found = look(nights(*noisy(20, 0.003), 104.0), TIME)
    assert found == Candidate(revision(19), revision(20), pytest.approx(1.04, abs=0.01), NightEvidence.band)


def test_four_percent_in_a_noisy_series_is_found_by_its_level_after_some_nights() -> None:
    values = [*noisy(30, 0.02), *noisy(12, 0.02, seed=5, level=106.0)]
    found = [look(nights(*values[:end]), TIME) for end in range(31, len(values) + 1)]
    moved = [one for one in found if one is not None and one.evidence is NightEvidence.change_point]
    assert moved
    assert 27 <= int(moved[0].good, 16) <= 31, "the range holds the commit at which it moved"


@pytest.mark.parametrize("values", [[100.0] * 20, noisy(40, 0.02), [*[100.0] * 10, 96.0], [100.0], []])
def test_noise_an_improvement_and_a_first_night_are_nothing(values: Sequence[float]) -> None:
    assert look(nights(*values), TIME) is None


def test_the_good_commit_is_the_last_one_nearer_to_the_old_level() -> None:
    crept = look(nights(*[100.0] * 12, 104.9, 105.0), TIME)
    assert crept is not None
    assert crept.good == revision(11), "yesterday's number shows the change already"


def test_memory_is_held_to_one_percent_and_a_double_peak_is_found() -> None:
    assert look(nights(*[4096.0] * 3, 8192.0), Metric.peak_bytes) == Candidate(
        revision(2), revision(3), pytest.approx(2.0), NightEvidence.band
    )
    assert look(nights(*[4096.0] * 9, 4100.0), Metric.peak_bytes) is None


def test_wrong_values_are_a_candidate_against_the_last_right_commit() -> None:
    wrong = nights(0.0, 0.0, 1.0)
    assert look(wrong, Metric.wrong_values) == Candidate(revision(1), revision(2), 1.0, NightEvidence.values)
    assert look(nights(1.0, 1.0), Metric.wrong_values) is None, "nothing is known to have been right"
    accepted = (Change(revision(1), revision(2), SeriesState.triaged),)
    assert look([*wrong, point(3, 1.0)], Metric.wrong_values, accepted) is None
    assert look([*wrong, point(3, 0.0), point(4, 1.0)], Metric.wrong_values, accepted) is not None


def test_the_same_night_is_not_looked_at_twice() -> None:
    series = nights(*[100.0] * 12, 110.0)
    assert look(series, TIME) is not None
    assert look(series, TIME, (Change(revision(11), revision(12), SeriesState.undecided),)) is None


def test_an_undecided_change_is_proposed_again_the_next_night() -> None:
    series = nights(*[100.0] * 12, 110.0, 110.0)
    found = look(series, TIME, (Change(revision(11), revision(12), SeriesState.undecided, 1.1),))
    assert found is not None
    assert (found.good, found.bad) == (revision(11), revision(13))


def test_what_a_comparison_did_not_find_is_not_proposed_again_as_a_moved_level() -> None:
    values = [100.0] * 15 + [101.5] * 4
    series = nights(*[value * (1 + 0.001 * (place % 3)) for place, value in enumerate(values)])
    assert look(series, TIME) is not None
    refuted = (Change(revision(14), revision(16), SeriesState.quiet, 1.015),)
    assert look(series, TIME, refuted) is None


@pytest.mark.parametrize("state", [SeriesState.confirmed, SeriesState.triaged])
def test_a_change_that_stands_is_the_base_for_the_next_one(state: SeriesState) -> None:
    stands = (Change(revision(11), revision(12), state, 1.1),)
    assert look(nights(*[100.0] * 12, *[110.0] * 8), TIME, stands) is None
    found = look(nights(*[100.0] * 12, *[110.0] * 8, 120.0), TIME, stands)
    assert found is not None
    assert (found.good, found.ratio) == (revision(19), pytest.approx(120 / 110))


def test_a_recovery_is_looked_for_against_the_good_commit() -> None:
    stands = (Change(revision(11), revision(12), SeriesState.confirmed, 1.1),)
    found = look(nights(*[100.0] * 12, 110.0, 110.0, 100.2), TIME, stands)
    assert found == Candidate(revision(11), revision(14), pytest.approx(1.002), NightEvidence.recovery)
    half = look(nights(*[100.0] * 12, 110.0, 110.0, 106.0), TIME, stands)
    assert half is None, "half of it is no recovery"
    assert (
        look(nights(*[100.0] * 12, 110.0, 100.0), TIME, (Change(revision(11), revision(12), SeriesState.triaged),))
        is None
    )


def test_back_from_two_changes_at_once_the_older_one_is_compared() -> None:
    stand = (
        Change(revision(11), revision(12), SeriesState.confirmed, 1.1),
        Change(revision(13), revision(14), SeriesState.confirmed, 1.2),
    )
    series = nights(*[100.0] * 12, 110.0, 110.0, 132.0)
    first, second = (look([*series, point(15, value)], TIME, stand) for value in (100.0, 110.0))
    assert first is not None and second is not None
    assert (first.good, second.good) == (revision(11), revision(13))
    assert first.evidence is second.evidence is NightEvidence.recovery


def test_nights_of_a_change_that_is_gone_are_not_where_the_series_stands() -> None:
    gone = (Change(revision(11), revision(12), SeriesState.recovered, 1.3, revision(16)),)
    series = nights(*[100.0] * 12, *[130.0] * 4, 100.0)
    assert look([*series, point(17, 100.0)], TIME, gone) is None
    found = look([*series, point(17, 112.0)], TIME, gone)
    assert found is not None
    assert (found.good, found.ratio) == (revision(16), pytest.approx(1.12))


def words(*said: Word | None) -> Iterator[Word | None]:
    return iter(said)


CANDIDATE = Candidate("a", "b", 1.1, NightEvidence.band)
BACK = Candidate("a", "b", 1.0, NightEvidence.recovery)
FASTER = Candidate("a", "b", 0.8, NightEvidence.faster)


@pytest.mark.parametrize(
    ("candidate", "said", "state"),
    [
        (CANDIDATE, (Word.slower, Word.slower, Word.slower), SeriesState.confirmed),
        (CANDIDATE, (Word.slower, Word.slower, Word.same), SeriesState.undecided),
        (CANDIDATE, (Word.slower, Word.same), SeriesState.undecided),
        (CANDIDATE, (Word.slower, None), SeriesState.undecided),
        (CANDIDATE, (Word.same,), SeriesState.quiet),
        (CANDIDATE, (Word.faster,), SeriesState.quiet),
        (CANDIDATE, (Word.undecided,), SeriesState.undecided),
        (CANDIDATE, (None,), SeriesState.undecided),
        (FASTER, (Word.faster, Word.faster, Word.faster), SeriesState.improved),
        (FASTER, (Word.faster, Word.faster, Word.undecided), SeriesState.quiet),
        (BACK, (Word.same, Word.faster, Word.same), SeriesState.recovered),
        (BACK, (Word.same, Word.same, Word.undecided), SeriesState.confirmed),
        (BACK, (Word.same, Word.slower), SeriesState.confirmed),
        (BACK, (Word.slower,), SeriesState.confirmed),
        (BACK, (Word.undecided,), SeriesState.confirmed),
        (BACK, (None,), SeriesState.confirmed),
    ],
)
def test_only_runs_that_agree_report_something(
    candidate: Candidate, said: tuple[Word | None, ...], state: SeriesState
) -> None:
    left = words(*said)
    assert compared(candidate, lambda: next(left)) is state
    assert list(left) == [], "no run more than is needed"


@given(st.lists(st.floats(1e-3, 1e9), min_size=2, max_size=80), st.sampled_from([Metric.time_us, Metric.peak_bytes]))
def test_any_series_is_judged_and_the_range_lies_in_it_in_order(values: list[float], metric: Metric) -> None:
    found = look(nights(*values), metric)
    if found is not None:
        assert int(found.good, 16) < int(found.bad, 16) == len(values) - 1
        assert found.ratio > 1


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_number_that_is_no_time_is_left_out(value: float) -> None:
    assert look(nights(*[100.0] * 8, value), TIME) is None
    assert look(nights(*[100.0] * 8, value, 110.0), TIME) is not None


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_over_simulated_nights_false_alarms_stay_under_one_in_a_thousand(scenario: Scenario) -> None:
    tally = simulate(scenario, 6_000, seed=11)
    assert tally.nights >= 6_000
    assert tally.false_alarms <= tally.nights / 1000 / 2
    if scenario.step > 1 and not scenario.new_testbed:
        least = {1.04: 0.7, 1.10: 0.9, 2.0: 1.0}[scenario.step]
        assert tally.found >= least * tally.series
        assert tally.median_nights == 1


def test_the_same_seed_gives_the_same_nights() -> None:
    assert simulate(QUIET, 600, seed=3) == simulate(QUIET, 600, seed=3)
    assert simulate(QUIET, 600, seed=3) != simulate(QUIET, 600, seed=4)
