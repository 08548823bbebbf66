"""The fast path for the sizes at which it was measured to be faster, the file's own code below them. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gpu_runner.contracts import Problem, Workload, WorkloadTiming
from workers.contracts import PlannedStrategy, Variant
from workers.strategies.compiled_fast_path import CompiledFastPath, proposed
from workers.strategies.guardrails import comparison_with_original
from workers.strategies.protocol import DoesNotApply, Proposed, Situation

UNTRIED = "The fast path for all sizes was not measured, so that nothing tells where it is slower."
EVEN = "The fast path is not slower at small sizes and faster at larger ones."


class FastPathBySize:
    """Mends a fast path that a guardrail rejected for what it does to small sizes."""

    id = "fast_path_by_size"
    title = "Fast path from a size on"
    document = "fast_path_by_size.md"
    needs_kernel = True

    def plan(self, situation: Situation) -> PlannedStrategy | None:
        """It may be worth a try wherever the fast path is; whether it is, the fast path's own rows will tell."""
        whole = CompiledFastPath().plan(situation)
        if whole is None:
            return None
        trigger = (
            "The fast path may be slower at small sizes, where its launches weigh more than the bytes that it saves."
        )
        # It comes after the fast path itself, whose gain it keeps at most.
        return replace(whole, strategy=self.id, title=self.title, trigger=trigger, gain_low=1.0)

    def propose(self, situation: Situation) -> Proposed | DoesNotApply:
        """Give the file with the fast path bounded by what was measured."""
        tried = [v for v in situation.earlier if v.strategy == CompiledFastPath.id and v.rows]
        if not tried:
            return DoesNotApply(UNTRIED)
        least = least_elements(situation.problem, tried[-1])
        return DoesNotApply(EVEN) if least is None else proposed(situation, least)


def least_elements(problem: Problem, variant: Variant) -> int | None:
    """Give the number of elements of the largest input from which on no pass was slower; None where there is no such bound.

    It lies at the geometric mean between the largest size that was slower and the smallest above it.
    """
    sizes = sorted({elements(problem, row.workload) for row in variant.rows})
    slower = [elements(problem, row.workload) for row in variant.rows if _slower(row)]
    above = [size for size in sizes if slower and size > max(slower)]
    if not above or not any(_faster(variant.rows, problem, size) for size in above):
        return None
    return 1 << round(math.log2(math.sqrt(max(slower) * above[0])))


def elements(problem: Problem, workload: Workload) -> int:
    """Give the number of elements of a workload's largest input."""
    sizes = dict(workload.sizes)
    return max(math.prod(int(d) if d.isdigit() else sizes[d] for d in spec.dims) for spec in problem.inputs)


def _slower(row: WorkloadTiming) -> bool:
    found = comparison_with_original(row)
    return found is not None and found.speedup_high < 1.0


def _faster(rows: Sequence[WorkloadTiming], problem: Problem, size: int) -> bool:
    found = [comparison_with_original(row) for row in rows if elements(problem, row.workload) == size]
    return any(comparison is not None and comparison.speedup_low > 1.0 for comparison in found)
