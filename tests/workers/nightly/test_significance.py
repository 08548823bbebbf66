"""A comparison takes as many rounds as the series' own scatter asks for, and is judged by what its nights vary by."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gpu_runner.benchmark.estimate import quantile
from gpu_runner.benchmark.race import Race, RaceQuestion, looks_of
from gpu_runner.contracts import Pass, Word
from tests.gpu_runner.benchmark.machine import Machine, run
from tests.workers.nightly.numbers import H200, KEY, point
from workers.contracts import UsualRange
from workers.nightly.detection import Change, SeriesState
from workers.nightly.series import Metric, Point, PointSource, SeriesKey
from workers.nightly.significance import race_lengths, usual_ranges

PAIR = RaceQuestion("candidate", ("original",), ("control", "original"))
TRIES = 40


def nights(count: int, sigma: float, *, scatter: float = 0.005, first: int = 0) -> list[Point]:
    stream = random.Random(count)
    values = [100.0 * math.exp(stream.gauss(0, sigma)) for _ in range(count)]
    around = math.exp(0.8416 * scatter)
    return [point(first + night, one, low=one / around, high=one * around) for night, one in enumerate(values)]


def usual(*series: tuple[SeriesKey, Sequence[Point], Sequence[Change]]) -> tuple[UsualRange, ...]:
    return usual_ranges(series, H200)


def test_a_noisy_kernel_has_a_wider_range_than_a_quiet_one() -> None:
    ((quiet,), (noisy,)) = usual((KEY, nights(30, 0.001), ())), usual((KEY, nights(30, 0.02), ()))
    assert (quiet.high, quiet.low) == (pytest.approx(1.01), pytest.approx(1 / 1.01))
    assert noisy.high > 1.04
    assert (noisy.nights, noisy.gpu, noisy.timed_pass, noisy.workload) == (30, H200.gpu, "forward", KEY.workload)


def test_few_nights_other_gpus_peers_and_jobs_say_nothing() -> None:
    other, peer = KEY.on(replace(H200, gpu="NVIDIA B200")), replace(KEY, provider="torch")
    jobs = [replace(one, source=PointSource.job) for one in nights(30, 0.001)]
    assert usual((KEY, nights(6, 0.001), ()), (other, nights(30, 0.001), ()), (peer, nights(30, 0.001), ())) == ()
    assert usual((KEY, jobs, ())) == ()


def test_the_testbed_itself_goes_before_a_newer_one_with_another_driver() -> None:
    newer = KEY.on(replace(H200, driver="590.1"))
    (own,) = usual((KEY, nights(20, 0.001), ()), (newer, nights(25, 0.001, first=40), ()))
    assert own.nights == 20
    (near,) = usual((KEY, nights(3, 0.001), ()), (newer, nights(25, 0.001), ()))
    assert near.nights == 25, "too few here; the other driver's nights are of the same GPU model"


def test_what_was_measured_before_an_accepted_change_no_longer_counts() -> None:
    past = nights(30, 0.001)
    change = Change(past[19].revision, past[20].revision, SeriesState.triaged, 1.1)
    ((one,), nothing) = usual((KEY, past, (change,))), usual((KEY, past[:24], (change,)))
    assert (one.nights, nothing) == (10, ())


def test_only_a_kernel_that_scatters_asks_for_more_rounds() -> None:
    (quiet,), (scattered,) = usual((KEY, nights(20, 0.001), ())), usual((KEY, nights(20, 0.001, scatter=0.04), ()))
    assert race_lengths([quiet, replace(scattered, metric=Metric.peak_bytes)]) == ()
    (length,) = race_lengths([quiet, scattered])
    assert (length.workload, length.timed_pass) == (KEY.workload, Pass.forward)
    assert length.pairs == pytest.approx(97, abs=2)


def test_the_rounds_that_a_scattered_kernel_asks_for_decide_what_the_usual_ones_leave_open() -> None:
    machine = Machine(sample=0.04, turn=0.012)
    times = {"candidate": 250.0, "original": 250.0, "control": 250.0}
    past = [_scatter(run(times, machine, seed, PAIR)) for seed in range(9)]
    (length,) = race_lengths([UsualRange("forward", "T=1", "time_us", "", 9, 0.99, 1.01, statistics.median(past))])
    few, many = Counter[Word](), Counter[Word]()
    for seed in range(TRIES):
        slower = times | {"candidate": 250.0 * 1.02}
        few[run(slower, machine, 100 + seed, PAIR).comparisons()[0].word] += 1
        many[run(slower, machine, 100 + seed, PAIR, looks_of(length.pairs)).comparisons()[0].word] += 1
    assert few[Word.slower] < 0.75 * TRIES
    assert many[Word.slower] >= 0.9 * TRIES
    assert few[Word.faster] == many[Word.faster] == 0


def test_more_rounds_make_no_false_word() -> None:
    machine, times = Machine(sample=0.04, turn=0.012), {"candidate": 60.0, "original": 60.0, "control": 60.0}
    words = Counter(run(times, machine, seed, PAIR, looks_of(120)).comparisons()[0].word for seed in range(100))
    assert words[Word.faster] == words[Word.slower] == 0


def _scatter(race: Race) -> float:
    samples = [sample for block in race.blocks("original") for sample in block]
    return math.log(quantile(samples, 0.8) / quantile(samples, 0.2)) / (2 * 0.8416)
