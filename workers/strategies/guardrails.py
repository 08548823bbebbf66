"""What a variant is worth by the goal, and what it must not make worse. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gpu_runner.contracts import Comparison, Pass, WorkloadTiming
from workers.contracts import EVERY_SIZE, Breach, Goal, Guardrail, Regime, Scope
from workers.strategies.regimes import in_regime

VARIANT, ORIGINAL = "candidate", "original"
# Of the Liger performance skill: a metric that is not the goal may get this much worse, and another pass this much.
OTHER_METRIC, OTHER_PASS = 1.05, 1.10
GOAL_PASSES = {Scope.general: Pass.full, Scope.forward: Pass.forward, Scope.backward: Pass.backward}


def score(rows: Sequence[WorkloadTiming], goal: Goal, scope: Scope, regime: Regime = EVERY_SIZE) -> float | None:
    """Give how many times as good as v0 a variant is by the goal, the geometric mean over the regime's sizes; None: not measured.

    Speed is that of the scope's pass (of forward and backward together for a general one), memory that of the peak. Balanced
    is the geometric mean of both.
    """
    aimed = _aimed(in_regime(rows, regime), scope)
    speed = _mean(_speedup(row) for row in aimed)
    memory = _mean(None if (ratio := row.memory_ratio) is None else 1.0 / ratio for row in aimed)
    if goal is Goal.speed:
        return speed
    if goal is Goal.memory:
        return memory
    return speed if speed is None or memory is None else math.sqrt(speed * memory)


def breaches(
    rows: Sequence[WorkloadTiming], goal: Goal, scope: Scope, regime: Regime = EVERY_SIZE
) -> tuple[Breach, ...]:
    """Give every guardrail that a variant breaks, in the order of the rows.

    A time counts as worse only where the whole interval of the comparison says so, by how much is said by its middle. At sizes
    outside of the regime nothing is the goal.
    """
    found: list[Breach] = []
    aimed = {id(row) for row in in_regime(rows, regime)}
    for row in rows:
        time, memory = _time_ratio(row), row.memory_ratio
        for metric, ratio in (("time", time), ("memory", memory)):
            beyond = Guardrail.other_metric, OTHER_METRIC
            guardrail, allowed = _rule(metric, row.timed_pass, goal, scope) if id(row) in aimed else beyond
            if ratio is not None and ratio > allowed:
                found.append(Breach(guardrail, metric, row.timed_pass, row.workload.label(), ratio, allowed))
    return tuple(found)


def comparison_with_original(row: WorkloadTiming) -> Comparison | None:
    """Give the comparison of a variant with v0 on one row."""
    return next((c for c in row.comparisons if c.contender == VARIANT and c.baseline == ORIGINAL), None)


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


def _speedup(row: WorkloadTiming) -> float | None:
    found = comparison_with_original(row)
    if found is not None:
        return found.speedup
    times = {t.contender: t.median_us for t in row.timings}
    mine, theirs = times.get(VARIANT), times.get(ORIGINAL)
    return theirs / mine if mine and theirs else None


def _time_ratio(row: WorkloadTiming) -> float | None:
    """Variant over original; None also where noise may be all that there is."""
    found = comparison_with_original(row)
    if found is not None and found.speedup_high >= 1.0:
        return None
    speedup = _speedup(row)
    return None if speedup is None else 1.0 / speedup


def _mean(factors: Iterable[float | None]) -> float | None:
    known = [factor for factor in factors if factor is not None and factor > 0]
    return math.exp(sum(math.log(factor) for factor in known) / len(known)) if known else None
