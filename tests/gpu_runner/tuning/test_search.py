"""The search finds good settings in few tries, gives the same again, and keeps to its time."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from gpu_runner.contracts import Knob, Pass
from gpu_runner.tuning.search import SettingSearch
from gpu_runner.tuning.settings import DEFAULT, Settings, SettingSpace, space_of
from tests.gpu_runner.tuning.landscape import Cost, Landscape

KNOBS = (
    Knob(Pass.forward, "num_warps", (1, 2, 4, 8, 16, 32)),
    Knob(Pass.forward, "num_stages", (1, 2, 3, 4)),
    Knob(Pass.forward, "BLOCK", (1024, 2048, 4096, 8192, 16384)),
)
DEFAULTS = {"num_warps": 8, "num_stages": 2, "BLOCK": 8192}
SPACE = space_of(KNOBS, Pass.forward, DEFAULTS)
BLIND = space_of(KNOBS, Pass.forward, {})


def apart(value: int, best: int) -> float:
    return abs(math.log2(value / best))


def separable(s: Mapping[str, int]) -> float:
    return 100.0 * (
        1 + 0.08 * apart(s["num_warps"], 16) + 0.05 * abs(s["num_stages"] - 3) + 0.06 * apart(s["BLOCK"], 4096)
    )


def coupled(s: Mapping[str, int]) -> float:
    """The warps that are right depend on the block: each alone is a loss, both together a gain."""
    elements = s["BLOCK"] / (32 * s["num_warps"])
    return 100.0 * (1 + 0.15 * apart(round(elements), 32) + 0.05 * apart(s["BLOCK"], 4096))


def flat(_: Mapping[str, int]) -> float:
    return 250.0


def default_is_best(s: Mapping[str, int]) -> float:
    return 100.0 * (1 + 0.1 * sum(apart(s[name], DEFAULTS[name]) for name in DEFAULTS))


def rough(s: Mapping[str, int]) -> float | str:
    if s["num_warps"] == 32 or s["num_stages"] * s["BLOCK"] > 40000:
        return "OutOfResources: out of resource: shared memory"
    return separable(s)


def best_of(cost: Cost, space: SettingSpace = SPACE) -> float:
    found = [
        cost({"num_warps": warps, "num_stages": stages, "BLOCK": block})
        for warps in dict(space.values)["num_warps"]
        for stages in dict(space.values)["num_stages"]
        for block in dict(space.values)["BLOCK"]
    ]
    return min(item for item in found if isinstance(item, float))


@pytest.mark.parametrize("cost", [separable, coupled, flat, default_is_best, rough])
@pytest.mark.parametrize("space", [SPACE, BLIND])
def test_the_optimum_is_found_in_a_few_dozen_tries(cost: Cost, space: SettingSpace) -> None:
    landscape = Landscape(cost, DEFAULTS)
    search = SettingSearch(space, landscape)
    best = search.run()
    assert landscape.true_cost(best) <= best_of(cost) * 1.01
    assert len(landscape.compiled) <= (26 if space is SPACE else 36)
    assert len(landscape.compiled) == len(set(landscape.compiled))
    assert search.complete


@pytest.mark.parametrize("cost", [separable, coupled, rough])
def test_another_run_with_other_noise_gives_the_same_within_noise(cost: Cost) -> None:
    found = []
    for seed in range(6):
        landscape = Landscape(cost, DEFAULTS, seed=seed)
        found.append(landscape.true_cost(SettingSearch(SPACE, landscape).run()))
    assert max(found) <= min(found) * 1.01


def test_where_nothing_matters_the_default_stays() -> None:
    for seed in range(8):
        assert SettingSearch(SPACE, Landscape(flat, DEFAULTS, seed=seed)).run() == DEFAULT


def test_of_settings_that_are_equally_good_the_simplest_is_taken() -> None:
    def only_warps_matter(s: Mapping[str, int]) -> float:
        return 100.0 if s["num_warps"] == 4 else 120.0

    for seed in range(8):
        assert SettingSearch(BLIND, Landscape(only_warps_matter, DEFAULTS, seed=seed)).run() == (("num_warps", 4),)


def test_clocks_that_drift_do_not_choose_the_winner() -> None:
    for seed in range(6):
        landscape = Landscape(separable, DEFAULTS, seed=seed, drift=0.0005)
        assert landscape.true_cost(SettingSearch(SPACE, landscape).run()) <= best_of(separable) * 1.02


@pytest.mark.parametrize("budget_s", [0.5, 4.0, 12.0])
def test_the_time_is_kept_but_for_the_try_that_was_begun(budget_s: float) -> None:
    landscape = Landscape(separable, DEFAULTS, budget_s=budget_s)
    search = SettingSearch(BLIND, landscape)
    search.run()
    assert landscape.spent_s <= budget_s + 2.0
    assert not search.complete


def test_little_time_is_spent_well_where_the_default_is_known() -> None:
    landscape = Landscape(separable, DEFAULTS, budget_s=12.0)
    best = SettingSearch(SPACE, landscape).run()
    assert landscape.true_cost(best) <= 0.93 * landscape.true_cost(DEFAULT)


def test_what_won_elsewhere_is_tried_early() -> None:
    hint: Settings = (("BLOCK", 4096), ("num_stages", 3), ("num_warps", 16))
    landscape = Landscape(separable, DEFAULTS, budget_s=5.0)
    assert SettingSearch(SPACE, landscape, hints=[hint]).run() == hint


def test_a_setting_that_is_clearly_worse_gets_one_block() -> None:
    def only_eight_warps(s: Mapping[str, int]) -> float:
        return 100.0 if s["num_warps"] == 8 else 130.0

    search = SettingSearch(SPACE, Landscape(only_eight_warps, DEFAULTS))
    search.run()
    assert len(search.trials[(("num_warps", 16),)].blocks) == 1
    assert len(search.trials[DEFAULT].blocks) == 3


def test_what_does_not_run_is_kept_with_its_reason() -> None:
    def no_other_warps(s: Mapping[str, int]) -> float | str:
        return 100.0 if s["num_warps"] == 8 else "value 0 differs from the default's"

    search = SettingSearch(SPACE, Landscape(no_other_warps, DEFAULTS))
    assert "num_warps" not in dict(search.run())
    assert search.trials[(("num_warps", 16),)].failure == "value 0 differs from the default's"


def test_a_default_that_does_not_run_ends_the_search() -> None:
    landscape = Landscape(lambda _: "it does not compile", DEFAULTS)
    assert SettingSearch(SPACE, landscape).run() == DEFAULT
    assert landscape.compiled == [DEFAULT]
