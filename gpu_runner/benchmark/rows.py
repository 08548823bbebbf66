"""Makes the rows of a result from what the races gave. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpu_runner.benchmark.conditions import summary
from gpu_runner.benchmark.estimate import quantile
from gpu_runner.benchmark.race import ORIGINAL, Race
from gpu_runner.benchmark.roofline import PassWork, TimeFloor, fault
from gpu_runner.contracts.benchmark import Comparison, Pass, Timing, Word, WorkloadTiming
from gpu_runner.contracts.problem import Workload


@dataclass(frozen=True)
class ContenderStatus:
    """A contender's result but for its times. ``error`` removes its times, notes do not."""

    error: str | None = None
    peak_bytes: int | None = None
    host_us: float | None = None
    wrong: bool = False


@dataclass(frozen=True)
class Finish:
    """One race with everything around it."""

    workload: Workload
    timed_pass: Pass
    race: Race
    accounts: Mapping[str, ContenderStatus]
    work: PassWork
    floor: TimeFloor


def row(finish: Finish) -> WorkloadTiming:
    """The row: times, the floor, every comparison, and the one that heads it."""
    race = finish.race
    timings = tuple(_timing(name, finish) for name in race.names)
    faults = {t.contender: text for t in timings if (text := fault(t.median_us, finish.floor.sure_us)) is not None}
    comparisons = tuple(
        replace(comparison, word=Word.undecided)
        if {comparison.contender, comparison.baseline} & set(faults)
        else comparison
        for comparison in race.comparisons()
        if not _failed(comparison, finish)
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
    return headed(made)


def headed(row: WorkloadTiming) -> WorkloadTiming:
    """The row with the comparison that heads it."""
    against = spoken_of(row.comparisons, row.timings)
    if against is None:
        return row
    return replace(
        row,
        speedup=against.speedup,
        speedup_low=against.speedup_low,
        speedup_high=against.speedup_high,
        against=against.baseline,
        word=against.word,
    )


def spoken_of(comparisons: Sequence[Comparison], timings: Sequence[Timing]) -> Comparison | None:
    """The comparison that heads a row: with the original where there is one, else with the fastest baseline."""
    times = {timing.contender: timing.median_us for timing in timings}
    for comparison in comparisons:
        if comparison.baseline == ORIGINAL:
            return comparison
    timed = [comparison for comparison in comparisons if times.get(comparison.baseline) is not None]
    return min(timed, key=lambda comparison: times[comparison.baseline] or 0.0, default=None)


def _failed(comparison: Comparison, finish: Finish) -> bool:
    return any(
        finish.accounts.get(name, ContenderStatus()).error for name in (comparison.contender, comparison.baseline)
    )


def _fault(faults: Mapping[str, str], candidate: str) -> str | None:
    if candidate in faults:
        return faults[candidate]
    return next((f"{name}: {text}" for name, text in faults.items()), None)


def _timing(name: str, finish: Finish) -> Timing:
    account = finish.accounts.get(name, ContenderStatus())
    blocks = finish.race.blocks(name)
    if account.error is not None or not blocks:
        return Timing(name, None, error=account.error or "it took no turn", wrong=account.wrong)
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
