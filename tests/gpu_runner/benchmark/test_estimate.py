"""A number is never a single run: medians, intervals and the word for them."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from gpu_runner.benchmark import estimate
from gpu_runner.benchmark.race import turns
from gpu_runner.contracts import Word


def blocks(center: float, count: int = 12, spread: float = 0.002, seed: int = 0) -> list[list[float]]:
    stream = random.Random(seed)
    return [[center * (1 + stream.gauss(0, spread)) for _ in range(10)] for _ in range(count)]


def test_quantiles_lie_between_samples() -> None:
    assert estimate.quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert estimate.quantile([5.0], 0.2) == 5.0
    with pytest.raises(ValueError, match="no samples"):
        estimate.quantile([], 0.5)


def test_twice_as_fast_is_faster_with_an_interval_around_two() -> None:
    found = estimate.ratio(blocks(20.0), blocks(10.0, seed=1))
    assert found is not None
    assert found.low <= found.median <= found.high
    assert found.median == pytest.approx(2.0, rel=0.01)
    assert estimate.word(found, 0.0) is Word.faster
    assert estimate.word(estimate.ratio(blocks(10.0), blocks(20.0, seed=1)), 0.0) is Word.slower


def test_a_drift_of_the_machine_cancels_out_of_the_ratio() -> None:
    drift = [1 + 0.05 * n for n in range(12)]
    slow = [[20.0 * d] * 3 for d in drift]
    fast = [[10.0 * d] * 3 for d in drift]
    found = estimate.ratio(slow, fast)
    assert found is not None
    assert found.low == pytest.approx(2.0)
    assert found.high == pytest.approx(2.0)


def test_equal_times_are_the_same_and_a_noisy_control_leaves_it_undecided() -> None:
    assert estimate.word(estimate.ratio(blocks(10.0), blocks(10.0, seed=1)), 0.0) is Word.same
    slightly = estimate.ratio(blocks(10.5), blocks(10.0, seed=1))
    assert estimate.word(slightly, 0.0) is Word.faster
    assert estimate.word(slightly, 0.2) is not Word.faster


def test_too_few_blocks_decide_nothing() -> None:
    assert estimate.ratio(blocks(20.0, 2), blocks(10.0, 2)) is None
    assert estimate.word(None, 0.0) is Word.undecided


def test_the_control_is_small_for_a_steady_contender_and_large_for_an_unsteady_one() -> None:
    assert estimate.control(blocks(10.0)) < 0.002
    assert estimate.control(blocks(10.0) + blocks(20.0) + blocks(10.0)) < estimate.control([[10.0], [20.0]] * 6)


def test_turns_go_there_and_back_and_every_contender_is_first_as_often() -> None:
    rounds = list(itertools.islice(turns(["a", "b", "c"]), 6))
    assert rounds[0] == ("a", "b", "c")
    assert rounds[1] == ("c", "b", "a")
    assert all(sorted(order) == ["a", "b", "c"] for order in rounds)
    places = {name: sum(order.index(name) for order in rounds) for name in "abc"}
    assert len(set(places.values())) == 1


def test_of_few_pairs_the_interval_holds_all_of_them() -> None:
    logs = [math.log(ratio) for ratio in (3.49, 3.51, 3.50, 3.52, 3.50, 3.45)]
    found = estimate.ratio_of_logs(logs)
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(3.45), pytest.approx(3.52))
    assert estimate.word(found, noise=0.01) is Word.faster
    torn = estimate.ratio_of_logs([math.log(ratio) for ratio in (1.2, 1.2, 1.2, 1.2, 1.2, 0.9)])
    assert estimate.word(torn, noise=0.01) is Word.undecided


def test_a_difference_that_some_turns_do_not_have_comes_of_bursts() -> None:
    stream = random.Random(3)
    noise = [stream.gauss(0.0, 0.01) for _ in range(40)]
    assert estimate.comes_in_bursts([log - (2.4 if place % 4 else 0.0) for place, log in enumerate(noise)])
    assert estimate.comes_in_bursts([log + (0.5 if place % 3 else 0.0) for place, log in enumerate(noise)])
    assert not estimate.comes_in_bursts([log - 2.4 for log in noise])
    assert not estimate.comes_in_bursts([log - 0.04 for log in noise])  # as small as noise: the interval says enough
    assert not estimate.comes_in_bursts([log - stream.uniform(0.3, 0.5) for log in noise])
