"""What a variant's measurement taught, in a sentence of figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_runner.contracts import Pass, WorkloadTiming
from workers.contracts import PlannedStrategy
from workers.stages.headroom import geometric_mean

ORIGINAL = "original"


def speedups(rows: Iterable[WorkloadTiming], timed_pass: Pass) -> tuple[float, ...]:
    """Give how many times as fast as the original, on each size of a pass that was compared."""
    return tuple(
        comparison.speedup
        for row in rows
        if row.timed_pass is timed_pass
        for comparison in row.comparisons
        if comparison.contender == "candidate" and comparison.baseline == ORIGINAL
    )


def learnings(rows: Iterable[WorkloadTiming]) -> str:
    """Give each pass's speedup over the original: the geometric mean and the range over sizes."""
    rows = tuple(rows)
    parts = []
    for timed_pass in Pass:
        found = speedups(rows, timed_pass)
        if found:
            spread = f" ({min(found):.2f} to {max(found):.2f})" if len(found) > 1 else ""
            parts.append(f"{timed_pass.value} {geometric_mean(found):.2f}x{spread}")
    return "; ".join(parts) if parts else "No pass could be compared."


def predicted_learnings(planned: PlannedStrategy) -> str:
    """Say that nothing was timed."""
    expected = f"{planned.gain_low:.2f} to {planned.gain_high:.2f} times as fast"
    return f"The values hold. Nothing was timed here; the expectation stays {expected}."
