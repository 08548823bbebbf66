"""What was measured of a kernel, as a strategy needs it: how far each pass is from its floor, and what bounds it. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpu_runner.contracts import BenchmarkResult, Bound, Pass, WorkloadTiming
from workers.contracts import Scope
from workers.strategies.protocol import Situation, Stands

PASSES_OF_SCOPE = {
    Scope.general: (Pass.forward, Pass.backward, Pass.full),
    Scope.forward: (Pass.forward,),
    Scope.backward: (Pass.backward,),
}
STANDING = ("original", "candidate")  # v0 is timed as the original where it has that name, else as the only candidate


@dataclass(frozen=True)
class Worth:
    """The evidence for a try, and what may be gained."""

    trigger: str
    gain_high: float
    gain_low: float = 1.0


def nothing_foreseen(situation: Situation) -> Worth | None:
    """Give no evidence: what only the text of a kernel tells is not known before there is one."""
    assert situation.stands is Stands.nothing, "a text is read"
    return None


def standing_us(row: WorkloadTiming, *contenders: str) -> float | None:
    """The time of what stands in the repository, or of the first of ``contenders`` that has one."""
    times = {timing.contender: timing.median_us for timing in row.timings}
    return next((times[name] for name in contenders or STANDING if times.get(name) is not None), None)


def floor_share(benchmark: BenchmarkResult, timed_pass: Pass) -> float | None:
    """Give the floor over the time of a pass, the geometric mean over the sizes; None where it was not measured."""
    shares: list[float] = []
    for row in benchmark.rows:
        time_us = standing_us(row)
        if row.timed_pass is timed_pass and time_us and row.floor_us:
            shares.append(row.floor_us / time_us)
    return math.exp(sum(math.log(s) for s in shares) / len(shares)) if shares else None


def headroom(situation: Situation) -> float:
    """Give how many times as fast a pass of the scope could be at most, by the pass that is farthest from its floor."""
    shares = [floor_share(situation.benchmark, p) for p in PASSES_OF_SCOPE[situation.scope]]
    known = [share for share in shares if share]
    return max((1.0 / share for share in known), default=math.inf)


def slowest_pass(situation: Situation) -> Pass | None:
    """Give the pass of the scope that is farthest from its floor."""
    shares = {p: floor_share(situation.benchmark, p) for p in (Pass.forward, Pass.backward)}
    known = {p: share for p, share in shares.items() if share and p in PASSES_OF_SCOPE[situation.scope]}
    return min(known, key=lambda p: known[p]) if known else None


def bound_of(situation: Situation) -> Bound:
    """Give the diagnosis of the pass that is farthest from its floor."""
    bounds = dict(situation.bounds)
    slowest = slowest_pass(situation)
    if slowest is not None and slowest in bounds:
        return bounds[slowest]
    return next(iter(bounds.values()), Bound.unknown)


def share_sentence(situation: Situation) -> str:
    """Give the shares of the floor in words; empty where nothing was measured."""
    shares = ((p, floor_share(situation.benchmark, p)) for p in (Pass.forward, Pass.backward))
    parts = [f"{p} runs at {share:.2f} of its floor" for p, share in shares if share]
    return ", ".join(parts)
