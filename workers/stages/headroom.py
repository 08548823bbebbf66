"""How far a kernel is from the least time that the hardware allows. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpu_runner.contracts import BenchmarkResult, Pass, Problem, Workload, WorkloadTiming
from workers.contracts import Failure, FailureCode, Scope, Target, UserFacingError

# Under these factors on the floor there is nothing that a person would notice: over all sizes, and at any one.
NOTHING_OVER_ALL = 1.10
NOTHING_AT_ONE = 1.20
# What a kernel takes besides moving its bytes: seen as 4 to 7 us of the smallest forward passes on an H200 with a cold cache.
LAUNCH_US = 4.0
MOST_SIZES = 6
MOST_ELEMENTS = 2**29  # of one input: five contenders with a ring of inputs each must fit on one GPU
PASSES = {
    Scope.general: (Pass.forward, Pass.backward),
    Scope.forward: (Pass.forward,),
    Scope.backward: (Pass.backward,),
}


def time_of(row: WorkloadTiming, contender: str = "candidate") -> float | None:
    """Give a contender's median on a row. Units: microseconds; None where it was not measured."""
    return next((t.median_us for t in row.timings if t.contender == contender), None)


def headrooms(rows: Sequence[WorkloadTiming], scope: Scope, least_floor_us: float = 0.0) -> tuple[float, ...]:
    """Give time over what can be reached, at least 1, of each row of the passes that the scope speaks of.

    What can be reached is the floor and one launch. Both passes together are looked at only where the backward pass alone has no
    floor, as that of a loss: else they say nothing that the two do not. Rows with a floor under ``least_floor_us`` are left out.
    """
    alone = {row.workload for row in rows if row.timed_pass is Pass.backward and row.floor_us}
    found = []
    for row in rows:
        time_us = time_of(row)
        together = scope is Scope.general and row.timed_pass is Pass.full and row.workload not in alone
        looked_at = together or row.timed_pass in PASSES[scope]
        if looked_at and time_us is not None and row.floor_us and row.floor_us >= least_floor_us:
            found.append(max(1.0, time_us / (row.floor_us + LAUNCH_US)))
    return tuple(found)


def nothing_to_gain(measured: BenchmarkResult, scope: Scope) -> bool:
    """Tell whether what was measured is at the floor already; never on a prediction."""
    factors = headrooms(measured.rows, scope)
    return bool(factors) and not measured.predicted and _at_the_floor(factors)


def room(measured: BenchmarkResult) -> float | None:
    """Give time over what can be reached, over all sizes, of a kernel that is not at its floor; None: it is, or nobody knows.

    It is the rule of ``nothing_to_gain``, at the sizes whose floor is longer than a launch. At the others launches take the time,
    of a pass often several: a small problem is no reason to ask a model for another kernel.
    """
    factors = headrooms(measured.rows, Scope.general, LAUNCH_US)
    if measured.predicted or not factors or _at_the_floor(factors):
        return None
    return geometric_mean(factors)


def _at_the_floor(factors: Sequence[float]) -> bool:
    return geometric_mean(factors) < NOTHING_OVER_ALL and max(factors) < NOTHING_AT_ONE


def geometric_mean(factors: Sequence[float]) -> float:
    """Give the geometric mean.

    Raises:
        ValueError: there are none.
    """
    if not factors:
        raise ValueError("no factors")
    return math.exp(sum(math.log(factor) for factor in factors) / len(factors))


def target_met(rows: Iterable[WorkloadTiming], target: Target) -> bool:
    """Tell whether the candidate is under the target's time on every row that it speaks of, of which there must be one."""
    wanted = [
        row
        for row in rows
        if row.timed_pass.value == target.timed_pass and set(target.sizes) <= set(row.workload.sizes)
    ]
    times = [time_of(row) for row in wanted]
    return bool(times) and all(time_us is not None and time_us < target.below_us for time_us in times)


Sizes = tuple[tuple[str, int], ...]


def chosen_sizes(
    own: Sequence[Workload], recorded: Sequence[Workload], wanted: Sequence[Sizes] = ()
) -> tuple[Workload, ...]:
    """Give the problem's workloads and, as far as there is room, recorded ones: those with wanted sizes first, then the ends."""
    chosen = list(own[:MOST_SIZES])
    rest = [w for w in recorded if not any(_alike(w, known) for known in chosen)]
    order = [rest[-1 - i // 2] if i % 2 == 0 else rest[i // 2] for i in range(len(rest))]
    asked_for = [w for w in rest if any(set(sizes) <= set(w.sizes) for sizes in wanted)]
    for workload in (*asked_for, *order):
        if len(chosen) < MOST_SIZES and not any(_alike(workload, known) for known in chosen):
            chosen.append(workload)
    return tuple(chosen)


def with_sizes(
    chosen: Sequence[Workload], wanted: Sequence[Sizes], problem: Problem
) -> tuple[tuple[Workload, ...], tuple[Workload, ...]]:
    """Give workloads among which each of the wanted sizes is, and those of them that were added for it.

    Raises:
        UserFacingError: a wanted size is larger than what is measured.
    """
    found, added = list(chosen), list[Workload]()
    for sizes in dict.fromkeys(wanted):
        if any(set(sizes) <= set(workload.sizes) for workload in found):
            continue
        first = chosen[0]
        new = replace(first, sizes=tuple((name, dict(sizes).get(name, size)) for name, size in first.sizes))
        if volume(problem, new) > MOST_ELEMENTS or min(size for _, size in new.sizes) < 1:
            message = f"`{new.label()}` cannot be measured: an input may have 1 to {MOST_ELEMENTS} elements"
            cure = (
                "Name other sizes in `--scope` or `--target`; with fewer of them the others are the problem's largest."
            )
            raise UserFacingError(Failure(FailureCode.refused, message, cure))
        found.append(new)
        added.append(new)
    return tuple(found), tuple(added)


def volume(problem: Problem, workload: Workload) -> int:
    """Give the number of elements of the largest input."""
    sizes = dict(workload.sizes)
    shapes = ([int(d) if d.isdigit() else sizes[d] for d in spec.dims] for spec in problem.inputs)
    return max(math.prod(shape) for shape in shapes)


def _alike(one: Workload, other: Workload) -> bool:
    same = set(one.sizes) == set(other.sizes) and set(one.scalars) == set(other.scalars)
    return same and (one.dtype is None or other.dtype is None or one.dtype == other.dtype)
