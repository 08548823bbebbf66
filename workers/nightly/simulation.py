"""Simulated nights, from measured noise: how often the detection reports a change where there is none, and how soon it finds one.

The noise is that of NVIDIA H200 in docs/measurements/. ``SERIES_NOISE`` are the standard deviations, as shares of the time, of ten
kernels of liger-kernel as they stand, each over two to four jobs on other days and other GPUs: an upper bound for one testbed.
``PAIR_NOISE`` is by how much a kernel differed from itself in an interleaved run, up to those that wait for the device.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from gpu_runner.contracts import Word
from workers.nightly.detection import Candidate, Change, NightEvidence, SeriesState, compared, look
from workers.nightly.series import Metric, Point

SERIES_NOISE = (0.0026, 0.0043, 0.0050, 0.0055, 0.0056, 0.0058, 0.0066, 0.0081, 0.0124, 0.0189)
PAIR_NOISE = (0.001, 0.002, 0.003, 0.003, 0.009, 0.013, 0.027, 0.040)
NIGHT_NOISE = 0.002  # of all series of a machine in the same night: its clocks and its heat
TAIL_FREEDOM = 4  # of Student's t: far nights are more frequent than a normal distribution has them
PAST_NIGHTS, WATCHED_NIGHTS = 20, 30
SERIES_OF_A_MACHINE = 100
MARGIN = 0.01  # beyond which, and beyond the control, an interleaved run says slower
MOST_SAME = 0.03  # beyond which nothing is called the same
WIDTH = 1.96


@dataclass(frozen=True)
class Scenario:
    """What is planted at the first watched night: ``step`` is new over old, ``spikes`` the share of noisy nights."""

    name: str
    step: float = 1.0
    metric: Metric = Metric.time_us
    spikes: float = 0.0
    new_testbed: bool = False  # a new driver: the step is the machine's, and a new series begins


QUIET = Scenario("quiet nights")
SCENARIOS = (
    QUIET,
    Scenario("noisy neighbour in 5% of the nights", spikes=0.05),
    Scenario("new driver, 10% slower", step=1.10, new_testbed=True),
    Scenario("4% slower", step=1.04),
    Scenario("10% slower", step=1.10),
    Scenario("twice the memory", step=2.0, metric=Metric.peak_bytes),
)


@dataclass(frozen=True)
class Tally:
    """What came of a scenario: ``found`` counts series whose planted change was confirmed, ``false_alarms`` confirmed changes
    between commits that do not differ."""

    scenario: Scenario
    series: int
    nights: int  # of all series together
    candidates: int  # comparisons that were asked for
    false_alarms: int
    undecided: int
    found: int
    at_once: int  # of those, in the very night
    median_nights: int | None  # until it was found, the night itself counted


def simulate(scenario: Scenario, series_nights: int, seed: int = 0) -> Tally:
    """Watch as many series for thirty nights as make up the series-nights."""
    stream = random.Random(seed)  # noqa: S311 - a simulation, not a secret
    count = math.ceil(series_nights / WATCHED_NIGHTS)
    watched: list[_Watched] = []
    while len(watched) < count:
        nights = [stream.gauss(0, NIGHT_NOISE) for _ in range(PAST_NIGHTS + WATCHED_NIGHTS)]
        spikes = [math.log1p(stream.uniform(0.05, 0.4)) if stream.random() < scenario.spikes else 0.0 for _ in nights]
        machine = [night + spike for night, spike in zip(nights, spikes, strict=True)]
        group = min(SERIES_OF_A_MACHINE, count - len(watched))
        watched += [_watch(scenario, machine, stream) for _ in range(group)]
    delays = sorted(one.delay for one in watched if one.delay is not None)
    return Tally(
        scenario,
        count,
        count * WATCHED_NIGHTS,
        sum(one.candidates for one in watched),
        sum(one.false_alarms for one in watched),
        sum(one.undecided for one in watched),
        len(delays),
        sum(delay == 1 for delay in delays),
        delays[len(delays) // 2] if delays else None,
    )


@dataclass
class _Watched:
    candidates: int = 0
    false_alarms: int = 0
    undecided: int = 0
    delay: int | None = None


def _watch(scenario: Scenario, machine: Sequence[float], stream: random.Random) -> _Watched:
    memory = scenario.metric is Metric.peak_bytes
    noise, pair = stream.choice(SERIES_NOISE), 0.0 if memory else stream.choice(PAIR_NOISE)
    points: list[Point] = []
    changes: list[Change] = []
    seen = _Watched()
    for night, common in enumerate(machine):
        if scenario.new_testbed and night == PAST_NIGHTS:
            points.clear()
        planted = math.log(scenario.step) if night >= PAST_NIGHTS else 0.0
        wander = 0.0 if memory else common + noise * _student(stream)
        points.append(Point(str(night), float(night), 100.0 * math.exp(planted + wander)))
        candidate = look(points, scenario.metric, changes) if night >= PAST_NIGHTS else None
        if candidate is None:
            continue
        seen.candidates += 1
        differs = not scenario.new_testbed and int(candidate.good) < PAST_NIGHTS <= int(candidate.bad)
        step = math.log(scenario.step) if differs else 0.0
        state = compared(candidate, partial(_word, step, pair, stream))
        seen.undecided += state is SeriesState.undecided
        if state is SeriesState.confirmed and candidate.evidence is not NightEvidence.recovery:
            seen.false_alarms += step == 0
            seen.delay = seen.delay or (night - PAST_NIGHTS + 1 if step else None)
        changes = _kept(changes, candidate, state)
    return seen


def _kept(changes: list[Change], candidate: Candidate, state: SeriesState) -> list[Change]:
    if candidate.evidence is not NightEvidence.recovery:
        return [*changes, Change(candidate.good, candidate.bad, state, candidate.ratio)]
    if state is not SeriesState.recovered:
        return changes
    gone = {one.bad for one in changes if one.state is SeriesState.confirmed and int(one.good) >= int(candidate.good)}
    return [replace(one, state=state, recovered=candidate.bad) if one.bad in gone else one for one in changes]


def _student(stream: random.Random) -> float:
    """Draw from Student's t, scaled to a standard deviation of one."""
    squares = stream.gammavariate(TAIL_FREEDOM / 2, 2) / TAIL_FREEDOM
    return stream.gauss(0, 1) / math.sqrt(squares) * math.sqrt((TAIL_FREEDOM - 2) / TAIL_FREEDOM)


def _word(step: float, pair: float, stream: random.Random) -> Word:
    """Run both commits in turns, with the control: processes differ by ``pair``, and an interval is a third as wide."""
    width = WIDTH * pair / 3
    measured = step + stream.gauss(0, pair)
    control = abs(stream.gauss(0, pair)) + width
    least = max(math.log1p(MARGIN), control)
    if measured - width > least:
        return Word.slower
    if measured + width < -least:
        return Word.faster
    return Word.same if abs(measured) + width <= min(least, math.log1p(MOST_SAME)) else Word.undecided
