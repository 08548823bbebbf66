"""What the GPU was doing while it was measured, and how far a baseline was from itself. Pure."""

from __future__ import annotations

import math

from gpu_runner.contracts import Comparison, Conditions, WorkloadTiming
from service.conversation.comparisons import with_interval
from service.conversation.markdown import folded, paragraphs, table
from service.conversation.quantities import DASH
from service.escape import code, inline

MAX_ROWS = 60
HEADER = (
    "workload",
    "pass",
    "baseline against itself",
    "SM clock",
    "memory clock",
    "temperature",
    "throttled",
    "dropped",
)


def noise_sentence(rows: tuple[WorkloadTiming, ...]) -> str:
    """Give what noise looked like in this very run; nothing where no control was measured."""
    controls = [abs(math.log(row.control.speedup)) for row in rows if row.control and row.control.speedup > 0]
    if not controls:
        return ""
    middle, worst = sorted(controls)[len(controls) // 2], max(controls)
    dropped = sum(row.conditions.dropped_blocks for row in rows if row.conditions)
    left_out = f" {dropped} disturbed rounds were left out." if dropped else ""
    return (
        f"Noise: a baseline measured against itself in the same run differed by {math.expm1(middle):.1%} (median) and "
        f"{math.expm1(worst):.1%} (most). Faster and slower are said only beyond 1% and beyond what it showed.{left_out}"
    )


def conditions_section(rows: tuple[WorkloadTiming, ...]) -> str:
    """Give control and conditions of every row, folded; nothing where neither was measured."""
    known = [row for row in rows if row.control or row.conditions]
    shown = [_row(row) for row in known[:MAX_ROWS]]
    used = [i for i in range(len(HEADER)) if i < 2 or any(cells[i] != DASH for cells in shown)]
    body = table([HEADER[i] for i in used], [[cells[i] for i in used] for cells in shown])
    more = f"{len(known) - MAX_ROWS} more are left out." if len(known) > MAX_ROWS else ""
    return folded("Noise and conditions", paragraphs(body, more))


def _row(row: WorkloadTiming) -> list[str]:
    return [code(row.workload.label()), row.timed_pass.value, _control(row.control), *_conditions(row.conditions)]


def _control(control: Comparison | None) -> str:
    return DASH if control is None else with_interval(control.speedup, control.speedup_low, control.speedup_high)


def _conditions(found: Conditions | None) -> list[str]:
    if found is None:
        return [DASH] * 5
    low, high = found.sm_clock_mhz_low, found.sm_clock_mhz_high
    clock = DASH if low is None or high is None else f"{low} MHz" if low == high else f"{low} to {high} MHz"
    memory = f"{found.memory_clock_mhz} MHz" if found.memory_clock_mhz is not None else DASH
    temperature = f"{found.temperature_c} °C" if found.temperature_c is not None else DASH
    reasons = ", ".join(inline(reason, 40) for reason in found.throttle_reasons) or DASH
    return [clock, memory, temperature, reasons, str(found.dropped_blocks) if found.dropped_blocks else DASH]
