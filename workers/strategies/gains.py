"""What strategies gained in earlier jobs, and what they are expected to gain here. Pure.

A gain is how many times as fast a variant is as the one that it was made from. Logarithms of gains are averaged from the general to
the particular: all trials of a strategy, those on the architecture, those of them at sizes like these, those of the kernel. Each
average is shrunk towards the one before it, the first towards what the catalog claims, which counts as ``PRIOR`` trials.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from gpu_runner.contracts import Workload, WorkloadTiming
from workers.contracts import Outcome, PlannedStrategy, Scope, Variant
from workers.strategies.search import GOAL_PASSES, speedup_of

PRIOR = 4.0  # trials that the catalog's claim, or a more general average, counts as
TAIL = 1.2816  # standard deviations: four of five gains of a normal distribution lie within
LATEST = 5  # trials of a kernel that count, so that one which is optimized again and again is not all that is known
CLASSES = (
    2**20,
    2**24,
)  # elements that end a class of sizes: what fits an L2 cache, and what takes longer than a launch
TIMED = (Outcome.kept, Outcome.no_gain, Outcome.guardrail)
UNUSABLE = (Outcome.incorrect, Outcome.failed, Outcome.unusable, Outcome.guardrail)


@dataclass(frozen=True)
class Trial:
    """What a variant came to. ``gains`` are by class of size, the geometric mean of each; empty where it was not timed."""

    strategy: str
    architecture: str
    kernel: str  # repository and name
    outcome: Outcome
    gains: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Gathered:
    """Logarithms of gains: how many, their mean, and the sum of their squared distances from it."""

    count: int
    mean: float
    squares: float


@dataclass(frozen=True)
class Evidence:
    """What is known of a strategy for a kernel: averages from the general to the particular, and how its trials ended."""

    averages: tuple[Gathered, ...]
    trials: int
    kernels: int
    unusable: int
    nearest: str  # the particular that there is any trial of, such as "on sm_90"

    @property
    def usable_share(self) -> float:
        """The share of trials that were right and broke no guardrail; the catalog's claim counts as usable ones."""
        return (self.trials - self.unusable + PRIOR) / (self.trials + PRIOR)


def class_of(workload: Workload) -> int:
    """The class of a size: 0 for the smallest."""
    elements = math.prod(size for _, size in workload.sizes)
    return sum(elements >= bound for bound in CLASSES)


def trials_of(variants: Sequence[Variant], scope: Scope, architecture: str, kernel: str) -> dict[str, Trial]:
    """The trials of a job by variant, in its order; what changed nothing is none."""
    known = {variant.name: variant for variant in variants}
    return {
        name: Trial(one.strategy, architecture, kernel, one.outcome, _gains(one, known.get(one.parent), scope))
        for name, one in known.items()
        if one.outcome in (*TIMED, *UNUSABLE)
    }


def _gains(variant: Variant, parent: Variant | None, scope: Scope) -> tuple[tuple[int, float], ...]:
    if variant.outcome not in TIMED:
        return ()
    before = {} if parent is None else _speedups(parent.rows, scope)
    by_class: dict[int, list[float]] = {}
    for workload, speedup in _speedups(variant.rows, scope).items():
        by_class.setdefault(class_of(workload), []).append(math.log(speedup / before.get(workload, 1.0)))
    return tuple((size, math.exp(fmean(logs))) for size, logs in sorted(by_class.items()))


def _speedups(rows: Sequence[WorkloadTiming], scope: Scope) -> dict[Workload, float]:
    """Times as fast as v0 by size, of the pass that the scope speaks of."""
    ratios = ((row.workload, speedup_of(row)) for row in rows if row.timed_pass is GOAL_PASSES[scope])
    return {workload: ratio for workload, ratio in ratios if ratio is not None and ratio > 0}


def evidence(
    trials: Iterable[Trial], architecture: str, kernel: str, workloads: Iterable[Workload]
) -> dict[str, Evidence]:
    """What is known of each strategy for a kernel on an architecture at some sizes; ``trials`` are the newest first."""
    classes = {class_of(workload) for workload in workloads}
    counted: dict[tuple[str, str, str], int] = {}
    of: dict[str, list[Trial]] = {}
    for trial in trials:
        key = (trial.strategy, trial.architecture, trial.kernel)
        counted[key] = counted.get(key, 0) + 1
        if counted[key] <= LATEST:
            of.setdefault(trial.strategy, []).append(trial)
    return {strategy: _evidence(some, architecture, kernel, classes) for strategy, some in of.items()}


def _evidence(trials: Sequence[Trial], architecture: str, kernel: str, classes: set[int]) -> Evidence:
    here = [trial for trial in trials if trial.architecture == architecture]
    own = [trial for trial in here if trial.kernel == kernel]
    groups = (
        [_log_gain(trial, None) for trial in trials],
        [_log_gain(trial, None) for trial in here],
        [_log_gain(trial, classes) for trial in here],
        [_log_gain(trial, classes) for trial in own],
    )
    averages = tuple(_gathered([gain for gain in group if gain is not None]) for group in groups)
    counted = here or trials
    nearest = f"on {architecture}" if here else "on other GPUs"
    unusable = sum(trial.outcome in UNUSABLE for trial in counted)
    return Evidence(averages, len(counted), len({trial.kernel for trial in counted}), unusable, nearest)


def _log_gain(trial: Trial, classes: set[int] | None) -> float | None:
    logs = [math.log(gain) for size, gain in trial.gains if classes is None or size in classes]
    return fmean(logs) if logs else None


def _gathered(logs: Sequence[float]) -> Gathered:
    mean = fmean(logs) if logs else 0.0
    return Gathered(len(logs), mean, sum((value - mean) ** 2 for value in logs))


def expected(planned: PlannedStrategy, known: Evidence) -> PlannedStrategy:
    """A planned strategy with the gains that four of five trials lie within, by what the catalog claims and what was measured."""
    low, high = math.log(planned.gain_low), math.log(planned.gain_high)
    mean, variance = (low + high) / 2, ((high - low) / (2 * TAIL)) ** 2
    for group in known.averages:
        weight = PRIOR + group.count
        apart = (group.mean - mean) ** 2 * PRIOR * group.count / weight
        variance = (PRIOR * variance + group.squares + apart) / weight
        mean = (PRIOR * mean + group.count * group.mean) / weight
    spread = TAIL * math.sqrt(variance)
    return replace(
        planned,
        trigger=f"{planned.trigger} {_sentence(known)}",
        gain_low=math.exp(mean - spread),
        gain_high=math.exp(mean + spread),
    )


def _sentence(known: Evidence) -> str:
    times, kernels = (
        f"{n} {word}{'s' if n != 1 else ''}" for n, word in ((known.trials, "time"), (known.kernels, "kernel"))
    )
    return f"Tried {times} before, on {kernels} {known.nearest}; {known.unusable} of these were unusable."
