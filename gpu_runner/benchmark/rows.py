"""Makes the rows of a result from what the races gave. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpu_runner.benchmark.conditions import summary
from gpu_runner.benchmark.estimate import quantile
from gpu_runner.benchmark.race import ORIGINAL, Race
from gpu_runner.benchmark.roofline import Floor, Work, fault
from gpu_runner.contracts.benchmark import Comparison, Pass, Timing, Word, WorkloadTiming
from gpu_runner.contracts.problem import Workload


@dataclass(frozen=True)
class Account:
    """What stands of a contender beside its times. ``error`` takes its time away, what is only noted does not."""

    error: str | None = None
    peak_bytes: int | None = None
    host_us: float | None = None


@dataclass(frozen=True)
class Finish:
    """One race with everything around it."""

    workload: Workload
    timed_pass: Pass
    race: Race
    accounts: Mapping[str, Account]
    work: Work
    floor: Floor


def row(finish: Finish) -> WorkloadTiming:
    """Give the row: times, the floor, every comparison, and of them the one that the row speaks of."""
    race = finish.race
    timings = tuple(_timing(name, finish) for name in race.names)
    faults = {t.contender: text for t in timings if (text := fault(t.median_us, finish.floor.sure_us)) is not None}
    comparisons = tuple(
        replace(found, word=Word.undecided) if {found.contender, found.baseline} & set(faults) else found
        for found in race.comparisons()
        if not _failed(found, finish)
    )
    control = race.control()
    made = WorkloadTiming(
        finish.workload,
        finish.timed_pass,
        timings,
        finish.work.moved_bytes,
        finish.work.flops,
        finish.floor.us,
        fault=_fault(faults, race.question.candidate),
        comparisons=comparisons,
        control=control if control is not None and not _failed(control, finish) else None,
        conditions=summary(
            [reading for unit in race.units for reading in unit.readings], 2 * (len(race.units) - len(race.kept()))
        ),
        bound=finish.floor.bound,
    )
    against = spoken_of(comparisons, timings)
    if against is None:
        return made
    return replace(
        made,
        speedup=against.speedup,
        speedup_low=against.speedup_low,
        speedup_high=against.speedup_high,
        against=against.baseline,
        word=against.word,
    )


def spoken_of(comparisons: Sequence[Comparison], timings: Sequence[Timing]) -> Comparison | None:
    """Give the comparison that a row speaks of: with the original where there is one, else with the fastest baseline."""
    times = {timing.contender: timing.median_us for timing in timings}
    for found in comparisons:
        if found.baseline == ORIGINAL:
            return found
    timed = [found for found in comparisons if times.get(found.baseline) is not None]
    return min(timed, key=lambda found: times[found.baseline] or 0.0, default=None)


def _failed(found: Comparison, finish: Finish) -> bool:
    return any(finish.accounts.get(name, Account()).error for name in (found.contender, found.baseline))


def _fault(faults: Mapping[str, str], candidate: str) -> str | None:
    if candidate in faults:
        return faults[candidate]
    return next((f"{name}: {text}" for name, text in faults.items()), None)


def _timing(name: str, finish: Finish) -> Timing:
    account = finish.accounts.get(name, Account())
    blocks = finish.race.blocks(name)
    if account.error is not None or not blocks:
        return Timing(name, None, error=account.error or "it took no turn")
    samples = [sample for block in blocks for sample in block]
    return Timing(
        name,
        quantile(samples, 0.5),
        quantile(samples, 0.2),
        quantile(samples, 0.8),
        len(blocks),
        account.peak_bytes,
        host_us=account.host_us,
    )
