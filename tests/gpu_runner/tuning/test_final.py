"""The default stays unless it loses clearly."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_runner.tuning.search import decide
from gpu_runner.tuning.settings import DEFAULT, Settings
from tests.gpu_runner.tuning.landscape import Landscape

BEST: Settings = (("num_warps", 16),)


def landscape(rival_us: float, seed: int = 0, noise: float = 0.003, budget_s: float = 100.0) -> Landscape:
    def cost(s: Mapping[str, int]) -> float:
        return rival_us if s["num_warps"] == 16 else 100.0

    return Landscape(cost, {"num_warps": 8}, seed=seed, noise=noise, budget_s=budget_s, drift=0.001)


def test_what_is_clearly_faster_wins_by_what_it_is_faster() -> None:
    for seed in range(5):
        outcome = decide(BEST, landscape(95.0, seed))
        assert outcome.settings == BEST
        assert outcome.ratio is not None
        assert 1.04 < outcome.ratio.low <= outcome.ratio.median <= outcome.ratio.high < 1.07


def test_less_than_one_percent_is_not_worth_a_table() -> None:
    for seed in range(10):
        assert decide(BEST, landscape(99.4, seed)).settings == DEFAULT


def test_a_gain_within_the_noise_is_none() -> None:
    wins = sum(decide(BEST, landscape(100.0, seed, noise=0.05)).settings != DEFAULT for seed in range(40))
    assert wins <= 1


def test_the_default_needs_no_rival() -> None:
    outcome = decide(DEFAULT, landscape(50.0))
    assert (outcome.settings, outcome.ratio, outcome.whole) == (DEFAULT, None, True)


def test_without_the_time_for_enough_rounds_the_default_stays() -> None:
    outcome = decide(BEST, landscape(50.0, budget_s=0.2))
    assert outcome.settings == DEFAULT
    assert not outcome.whole


def test_settings_that_fail_in_the_final_lose() -> None:
    def cost(s: Mapping[str, int]) -> float | str:
        return "illegal memory access" if s["num_warps"] == 16 else 100.0

    assert decide(BEST, Landscape(cost, {"num_warps": 8})).settings == DEFAULT
