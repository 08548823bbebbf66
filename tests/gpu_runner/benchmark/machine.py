"""A simulated GPU with its faults, on which a race can be run a thousand times."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gpu_runner.benchmark.conditions import GpuReading
from gpu_runner.benchmark.race import LOOKS, Race, RaceQuestion

SAMPLES = 6


@dataclass(frozen=True)
class Machine:
    """Shares of the time: noise of one sample, of one turn, drift over a hundred turns, jumps that hit everybody, outliers."""

    sample: float = 0.01
    turn: float = 0.003
    drift: float = 0.02
    jump: float = 0.01
    outliers: float = 0.02
    process: float = 0.001  # what one process keeps for itself: the luck of its memory


QUESTION = RaceQuestion("candidate", ("original", "eager", "torch_compile"), ("control", "original"))


def run(
    times_us: dict[str, float],
    machine: Machine,
    seed: int,
    question: RaceQuestion = QUESTION,
    looks: tuple[int, ...] = LOOKS,
) -> Race:
    """Race until it is finished."""
    stream = random.Random(seed)
    race = Race(list(times_us), question, looks)
    luck = {name: 1 + stream.gauss(0, machine.process) for name in times_us}
    level, turn = 1.0, 0
    while not race.finished:
        for name in race.order():
            turn += 1
            if stream.random() < 0.02:
                level *= 1 + stream.gauss(0, machine.jump)
            here = level * (1 + machine.drift * turn / 100) * (1 + stream.gauss(0, machine.turn)) * luck[name]
            race.add(name, [_sample(times_us[name] * here, machine, stream) for _ in range(SAMPLES)])
        race.close(GpuReading(1980, 3201, 45, ("sw_power_cap",)))
    return race


def _sample(center: float, machine: Machine, stream: random.Random) -> float:
    slow = 1 + stream.random() if stream.random() < machine.outliers else 1.0
    return round(center * slow * (1 + stream.gauss(0, machine.sample)) / 0.032) * 0.032
