"""Times, sizes and ratios as people read them. Pure; what was not measured is a dash."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeGuard

DASH = "–"


def duration_us(value: float | None) -> str:
    """Give a time, in the unit that fits it."""
    if not usable(value):
        return DASH
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if value >= size:
            return f"{_three(value / size)} {unit}"
    return f"{_three(value)} µs"


def wait(seconds: float) -> str:
    """Give an expected wait, as roughly as it is known."""
    if not usable(seconds) or seconds < 45:
        return "less than a minute"
    if seconds < 90 * 60:
        minutes = max(1, round(seconds / 60))
        return f"about {minutes} minute{'s' if minutes > 1 else ''}"
    return f"about {round(seconds / 3600)} hours"


def size_bytes(value: float | None) -> str:
    """Give a size in binary units."""
    if not usable(value):
        return DASH
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{_three(value / size)} {unit}"
    return f"{value:.0f} B"


def ratio(value: float | None) -> str:
    """Give a speedup."""
    return f"{value:.2f}×" if usable(value) else DASH


def percent(value: float | None) -> str:
    """Give a share."""
    return f"{value:.0%}" if usable(value) else DASH


def small(value: float | None) -> str:
    """Give an error or tolerance."""
    return f"{value:.2g}" if value is not None else DASH


def geometric_mean(values: Iterable[float]) -> float | None:
    """Give the geometric mean of positive numbers; None of none."""
    logs = [math.log(value) for value in values if value > 0 and math.isfinite(value)]
    return math.exp(sum(logs) / len(logs)) if logs else None


def counted(number: int, noun: str) -> str:
    """Give a number with its noun in the right form."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def usable(value: float | None) -> TypeGuard[float]:
    """Tell whether something was measured and is a number that can be shown."""
    return value is not None and math.isfinite(value) and value >= 0


def _three(value: float) -> str:
    if value >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
