"""Which variant is tried next, what it is worth by the goal, and what it must not make worse. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from gpu_runner.contracts import Comparison, Pass, Workload, WorkloadTiming
from workers.contracts import (
    EVERY_SIZE,
    Breach,
    Goal,
    Guardrail,
    MeasuredPart,
    Outcome,
    PlannedStrategy,
    Regime,
    Scope,
    StopReason,
    Variant,
)

ORIGINAL = "v0"
# These were never measured, so they use up neither a variant nor patience.
UNMEASURED = (Outcome.does_not_apply, Outcome.duplicate)


@dataclass(frozen=True)
class SearchLimits:
    """When a search ends."""

    variants: int = 8  # measured ones
    patience: int = 2  # so many in a row under ``least_gain`` end it
    least_gain: float = 1.01  # over the best before


@dataclass(frozen=True)
class SearchStep:
    """The next variant: a strategy, and the variant (or v0) whose file it changes."""

    parent: str
    strategy: str


def next_step(
    variants: Sequence[Variant], strategies: Sequence[PlannedStrategy], limits: SearchLimits
) -> SearchStep | StopReason:
    """The first strategy that was not tried, on the best accepted variant; one that repeats as long as it gains something."""
    repeating = frozenset(planned.strategy for planned in strategies if planned.repeats)
    stop = _stopped(variants, limits, repeating)
    tried = {variant.strategy for variant in variants}
    left = [p.strategy for p in strategies if p.repeats or p.strategy not in tried]
    if not left:
        return StopReason.strategies_used
    begun = bool(repeating & tried)
    if repeating and (begun or stop is StopReason.no_progress):
        # That what was planned finds nothing more says nothing about what nobody knows before it is asked for.
        left, stop = [strategy for strategy in left if strategy in repeating], stop if begun else None
    return stop or SearchStep(ranked(variants)[0], left[0])


def ranked(variants: Sequence[Variant]) -> tuple[str, ...]:
    """The names of those that may be built on, the best first; v0 is always among them."""
    kept = [(variant.score, number, variant.name) for number, variant in enumerate(variants) if variant.accepted]
    # Where nothing was timed, each kept one stands on the one before it.
    ordered = sorted(kept, key=lambda item: (item[0] if item[0] is not None else 1.0, item[1]), reverse=True)
    return (*(name for _, _, name in ordered), ORIGINAL)


def _stopped(
    variants: Sequence[Variant], limits: SearchLimits, repeating: frozenset[str] = frozenset()
) -> StopReason | None:
    # What repeats would never end if the same code again were nothing.
    measured = [v for v in variants if v.outcome not in UNMEASURED or v.strategy in repeating]
    if len(measured) >= limits.variants:
        return StopReason.variants_used
    best, idle, before = 1.0, 0, False
    for variant in measured:
        repeats = variant.strategy in repeating
        if repeats and not before:
            idle = 0
        before = repeats
        # One that was rejected for what it does elsewhere is better all the same: its idea is not used up.
        better = variant.accepted if variant.score is None else variant.score >= best * limits.least_gain
        idle = 0 if better else idle + 1
        if variant.accepted and variant.score is not None:
            best = max(best, variant.score)
    return StopReason.no_progress if idle >= limits.patience else None


VARIANT, ORIGINAL_CONTENDER = "candidate", "original"
# Of the Liger performance skill: a metric that is not the goal may get this much worse, and another pass this much.
OTHER_METRIC, OTHER_PASS = 1.05, 1.10
GOAL_PASSES = {Scope.general: Pass.full, Scope.forward: Pass.forward, Scope.backward: Pass.backward}


def score(rows: Sequence[WorkloadTiming], goal: Goal, scope: Scope, regime: Regime = EVERY_SIZE) -> float | None:
    """How many times as good as v0 a variant is by the goal, the geometric mean over the regime's sizes; None: not measured.

    Speed is that of the scope's pass (of forward and backward together for a general one), memory that of the peak. Balanced
    is the geometric mean of both.
    """
    aimed = _aimed(in_regime(rows, regime), scope)
    speed = _mean(speedup_of(row) for row in aimed)
    memory = _mean(None if (ratio := row.memory_ratio) is None else 1.0 / ratio for row in aimed)
    if goal is Goal.speed:
        return speed
    if goal is Goal.memory:
        return memory
    return speed if speed is None or memory is None else math.sqrt(speed * memory)


def breaches(
    rows: Sequence[WorkloadTiming], goal: Goal, scope: Scope, regime: Regime = EVERY_SIZE
) -> tuple[Breach, ...]:
    """Every guardrail that a variant breaks, in the order of the rows.

    A time counts as worse only where the whole interval of the comparison is; the amount is its middle. At sizes
    outside of the regime nothing is the goal.
    """
    broken: list[Breach] = []
    aimed = {id(row) for row in in_regime(rows, regime)}
    for row in rows:
        time, memory = _time_ratio(row), row.memory_ratio
        for metric, ratio in (("time", time), ("memory", memory)):
            beyond = Guardrail.other_metric, OTHER_METRIC
            guardrail, allowed = _rule(metric, row.timed_pass, goal, scope) if id(row) in aimed else beyond
            if ratio is not None and ratio > allowed:
                broken.append(Breach(guardrail, metric, row.timed_pass, row.workload.label(), ratio, allowed))
    return tuple(broken)


def comparison_with_original(row: WorkloadTiming) -> Comparison | None:
    """The comparison of a variant with v0 on one row."""
    return next((c for c in row.comparisons if c.contender == VARIANT and c.baseline == ORIGINAL_CONTENDER), None)


def _rule(metric: str, timed_pass: Pass, goal: Goal, scope: Scope) -> tuple[Guardrail, float]:
    aimed_at = {Goal.speed: ("time",), Goal.memory: ("memory",), Goal.balanced: ("time", "memory")}[goal]
    if metric not in aimed_at:
        return Guardrail.other_metric, OTHER_METRIC
    if goal is Goal.balanced and timed_pass is GOAL_PASSES[scope]:
        return Guardrail.other_metric, OTHER_METRIC
    return Guardrail.cross_regression, OTHER_PASS


def _aimed(rows: Sequence[WorkloadTiming], scope: Scope) -> list[WorkloadTiming]:
    """Rows of the pass that the scope speaks of; of both passes where the two were not timed together."""
    aimed = [row for row in rows if row.timed_pass is GOAL_PASSES[scope]]
    return aimed or (list(rows) if scope is Scope.general else [])


def speedup_of(row: WorkloadTiming) -> float | None:
    """How many times as fast as v0 a variant is on a row; None where it was not timed."""
    comparison = comparison_with_original(row)
    if comparison is not None:
        return comparison.speedup
    times = {t.contender: t.median_us for t in row.timings}
    mine, theirs = times.get(VARIANT), times.get(ORIGINAL_CONTENDER)
    return theirs / mine if mine and theirs else None


def _time_ratio(row: WorkloadTiming) -> float | None:
    """Variant over original; None also where noise may be all that there is."""
    comparison = comparison_with_original(row)
    if comparison is not None and comparison.speedup_high >= 1.0:
        return None
    speedup = speedup_of(row)
    return None if speedup is None else 1.0 / speedup


def _mean(factors: Iterable[float | None]) -> float | None:
    known = [factor for factor in factors if factor is not None and factor > 0]
    return geometric_mean(known) if known else None


def in_regime(rows: Sequence[WorkloadTiming], regime: Regime) -> tuple[WorkloadTiming, ...]:
    """The rows of a regime's sizes; all of them where it names none.

    The boundary of small and large is the geometric mean of the smallest and the largest product of dimensions.
    """
    if regime.part is None:
        return tuple(row for row in rows if set(regime.sizes) <= set(row.workload.sizes))
    products = [_product(row.workload) for row in rows]
    if len(set(products)) < 2:
        return tuple(rows)
    middle = math.sqrt(min(products) * max(products))
    small = regime.part is MeasuredPart.small
    return tuple(row for row, product in zip(rows, products, strict=True) if (product < middle) == small)


def _product(workload: Workload) -> int:
    return math.prod(size for _, size in workload.sizes)
