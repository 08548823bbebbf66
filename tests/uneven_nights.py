"""Simulated nights on machines that drift, whose clocks have two modes and which now and then step by 3%.

Another model than that of ``kernelsmith simulate-nights``, which draws a comparison's word from a normal distribution. Here each
comparison is a race of gpu_runner itself, turn by turn, with early looks and the control, so that its intervals are wrong where
a process keeps its luck. Nothing is measured; sizes of the effects are named below.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import Pool

from gpu_runner.benchmark.conditions import GpuReading
from gpu_runner.benchmark.race import CANDIDATE, CONTROL, ORIGINAL, Race, question
from gpu_runner.contracts import Word
from workers.nightly.detection import Change, NightEvidence, SeriesState, compared, look
from workers.nightly.series import Metric, Point

PAST, WATCHED = 20, 30
MENDED = PAST + 20  # the night from which on a planted change is gone
SERIES_OF_A_MACHINE = 50
TURNS_OF_A_NIGHT = 24
SAMPLES = 4
# Of the whole machine, from one night to the next, for good: a fan, a power limit, firmware.
STEP, STEP_CHANCE = 0.03, 1 / 60
WALK = 0.002  # by which a machine wanders from night to night
NIGHT_DRIFT = 0.01  # from the first to the last turn of a night or a comparison, at most
CLOCK_GAP, CLOCK_SWITCH = 0.02, 0.03  # between the two modes of the clock, and the chance of a switch a turn
LOW_CLOCK = 0.25  # share of turns in the lower mode
TAIL = 3  # degrees of freedom of Student's t
FOUND_IN = (1, 3, MENDED - PAST)  # nights
READING = GpuReading(1980, 3201, 45, ("sw_power_cap",))


@dataclass(frozen=True)
class Kind:
    """A kernel: noise of a turn, the luck that a process keeps, and the second mode that a process may land in."""

    name: str
    turn: float
    luck: float
    gap: float = 0.0  # between the two modes of a process, such as how its memory lies
    gap_chance: float = 0.0


KINDS = (
    Kind("quiet", 0.002, 0.0007),
    Kind("usual", 0.005, 0.002),
    Kind("two modes", 0.004, 0.001, 0.02, 0.15),
    Kind("noisy", 0.015, 0.008),
    Kind("lucky", 0.03, 0.07),
)


@dataclass
class Machine:
    """One machine over all nights; ``level`` is the log of what it makes of every time in a night."""

    stream: random.Random
    level: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        wander = steps = 0.0
        for _ in range(PAST + WATCHED):
            wander = 0.9 * wander + self.stream.gauss(0, WALK)
            steps += self.stream.choice((-1, 1)) * STEP if self.stream.random() < STEP_CHANCE else 0.0
            self.level.append(wander + steps)

    def turns(self, count: int) -> Iterator[float]:
        """The log of what a machine makes of turn after turn: it drifts, and its clock switches between two modes."""
        slope = self.stream.uniform(-NIGHT_DRIFT, NIGHT_DRIFT)
        low = self.stream.random() < LOW_CLOCK
        for turn in range(count):
            if self.stream.random() < CLOCK_SWITCH:
                low = self.stream.random() < LOW_CLOCK
            yield slope * turn / count + CLOCK_GAP * low


@dataclass
class Series:
    """One kernel's time on a machine, and what was found of it."""

    kind: Kind
    machine: Machine
    # To the clock and to the machine's steps, 0 to 1: a kernel that is bound by memory follows the clock little.
    sensitive: float
    planted: float  # log of new over old, from the first watched night on until it is mended
    points: list[Point] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    delay: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether a confirmed change is left."""
        return any(change.state is SeriesState.confirmed for change in self.changes)

    @property
    def stream(self) -> random.Random:
        return self.machine.stream

    def change(self, night: int) -> float:
        """The log of what the source of a night makes of the time."""
        return self.planted if PAST <= night < MENDED else 0.0

    def process(self) -> float:
        """The log of what a process keeps for itself."""
        return self.stream.gauss(0, self.kind.luck) + self.kind.gap * (self.stream.random() < self.kind.gap_chance)

    def turn(self) -> float:
        squares = self.stream.gammavariate(TAIL / 2, 2) / TAIL
        return self.kind.turn * self.stream.gauss(0, 1) / math.sqrt(squares) / math.sqrt(TAIL / (TAIL - 2))

    def watch(self) -> Series:
        for night in range(PAST + WATCHED):
            self.points.append(self.measure(night))
            if night >= PAST:
                self.look(night)
        return self

    def measure(self, night: int) -> Point:
        here = self.machine.level[night] * self.sensitive + self.process() + self.change(night)
        turns = sorted(here + self.sensitive * common + self.turn() for common in self.machine.turns(TURNS_OF_A_NIGHT))
        return Point(str(night), float(night), 100.0 * math.exp((turns[11] + turns[12]) / 2))

    def look(self, night: int) -> None:
        candidate = look(self.points, Metric.time_us, self.changes)
        if candidate is None:
            return
        step = self.change(int(candidate.bad)) - self.change(int(candidate.good))
        self.counted["compared"] += 1
        state = compared(candidate, lambda: self.race(step))
        self.counted[state] += 1
        if candidate.evidence is NightEvidence.recovery:
            if state is SeriesState.recovered:
                gone = {
                    one.bad
                    for one in self.changes
                    if one.state is SeriesState.confirmed and int(one.good) >= int(candidate.good)
                }
                self.changes = [
                    replace(one, state=state, recovered=candidate.bad) if one.bad in gone else one
                    for one in self.changes
                ]
                self.counted["false recoveries"] += step > 0
            return
        self.changes.append(Change(candidate.good, candidate.bad, state, candidate.ratio))
        if state is SeriesState.confirmed:
            self.counted["false alarms"] += step <= 0
            if step > 0 and self.delay is None:
                self.delay = night - PAST + 1

    def race(self, step: float) -> Word:
        """Run both commits in turns, each in a process of its own, on the machine as it is now."""
        names = (CANDIDATE, ORIGINAL, CONTROL)
        race = Race(names, question(names))
        luck = {name: self.process() + step * (name == CANDIDATE) for name in names}
        common = self.machine.turns(400)
        while not race.finished:
            for name in race.order():
                here = luck[name] + self.sensitive * next(common)
                race.add(name, [100.0 * math.exp(here + self.turn()) for _ in range(SAMPLES)])
            race.close(READING)
        return race.comparisons()[0].word


def machine_of(given: tuple[int, float, int]) -> list[Series]:
    """All series of one machine."""
    seed, step, count = given
    machine = Machine(random.Random(f"{seed} {step}"))
    kinds = [KINDS[place % len(KINDS)] for place in range(count)]
    return [Series(kind, machine, machine.stream.random(), math.log(step)).watch() for kind in kinds]


def tell(step: float, series: Sequence[Series]) -> None:
    """A line for each kind of kernel, and one for all."""
    for name in (*(kind.name for kind in KINDS), "all"):
        own = [one for one in series if name in (one.kind.name, "all")]
        total = sum((one.counted for one in own), Counter[str]())
        delays = [one.delay for one in own if one.delay is not None]
        closed = sum(one.delay is not None and not one.is_open for one in own)
        nights = WATCHED * len(own)
        found = [f"{sum(delay <= most for delay in delays) / len(own):.1%}" if step > 1 else "" for most in FOUND_IN]
        cells = (
            f"{step - 1:.0%} slower" if step > 1 else "nothing",
            name,
            nights,
            f"{total['compared'] / nights:.2%}",
            total["undecided"],
            total["false alarms"],
            f"{1000 * total['false alarms'] / nights:.3f}",
            total["false recoveries"],
            *found,
            f"{closed / len(delays):.1%}" if delays else "",
        )
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Play all steps, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.uneven_nights", description=__doc__)
    parser.add_argument("--series-nights", type=int, default=100_000, help="for each step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=float, nargs="+", default=(1.0, 1.02, 1.04, 1.08))
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args(arguments)
    machines = math.ceil(chosen.series_nights / WATCHED / SERIES_OF_A_MACHINE)
    head = (
        "planted",
        "kernels",
        "series-nights",
        "compared",
        "undecided",
        "false alarms",
        "in 1000",
        "false recoveries",
        "same night",
        "in 3",
        "in 20",
        "closed in 10",
    )
    print(f"| {' | '.join(head)} |\n| --- | --- |{' ---: |' * (len(head) - 2)}", flush=True)
    with Pool(chosen.jobs) as pool:
        for step in chosen.steps:
            given = [(chosen.seed * 100_000 + number, step, SERIES_OF_A_MACHINE) for number in range(machines)]
            tell(step, [one for series in pool.imap(machine_of, given) for one in series])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
