"""Runs one race on the GPU: hands out the turns, reads the GPU's state after each round, and keeps to the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from gpu_runner.benchmark.conditions import Reading
from gpu_runner.benchmark.contender import Contender
from gpu_runner.benchmark.race import Race
from gpu_runner.contracts.benchmark import Pass

LEAST_UNITS = 4  # for an interval at all, where the time is long over
OVERTIME = 0.5  # of its share of the time, that a race may take to reach its first look


def run_race(
    race: Race,
    contenders: Mapping[str, Contender],
    timed_pass: Pass,
    share_s: float,
    read: Callable[[], Reading | None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Race until nothing more is to be learned, or the time is over."""
    start = clock()
    for name in race.names:
        contenders[name].warm(timed_pass)
        if contenders[name].error is not None:
            race.drop(name)
    while not race.finished:
        if race.between and _over(race, clock() - start, share_s):
            return
        order = race.order()
        if not order:
            return
        for name in order:
            times = contenders[name].take_turn(timed_pass)
            if times is None:
                race.drop(name)
            else:
                race.add(name, times)
        race.close(read())


def _over(race: Race, taken_s: float, share_s: float) -> bool:
    done = len(race.units)
    if done >= race.looks[0]:
        return taken_s >= share_s
    return done >= LEAST_UNITS and taken_s >= (1 + OVERTIME) * share_s
