"""What a night measures, in which order, and which of its numbers are kept. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """``order`` is what to measure, first things first; ``known`` was measured at this very commit."""

    order: tuple[str, ...]
    known: tuple[str, ...]


def plan(
    kernels: Iterable[str],
    changed: Collection[str],
    measured: Mapping[str, tuple[str, float]],
    revision: str,
    before: Collection[str] = (),
) -> Plan:
    """Put what changed first, then what was measured longest ago.

    ``measured`` gives each kernel's newest revision and its time, ``before`` the kernels that were measured at this revision at
    any time: a branch may be put back to it.
    """
    names = sorted(set(kernels))
    known = tuple(name for name in names if name in before or (name in measured and measured[name][0] == revision))
    left = [name for name in names if name not in known]
    longest = sorted(left, key=lambda name: (name not in changed, measured.get(name, ("", 0.0))[1], name))
    return Plan(tuple(longest), known)


DAY_S = 86_400.0
WEEK_S = 7 * DAY_S


EPOCH_MONDAY_S = 4 * DAY_S  # 1970-01-05


def week_start(at: float) -> float:
    """The Monday, 00:00 UTC, of a time."""
    return at - (at - EPOCH_MONDAY_S) % WEEK_S


@dataclass(frozen=True)
class Retention:
    """Every point for ``all_days``, then one a week, which is the last of its week, until ``weekly_days`` after it was measured."""

    all_days: float = 400.0
    weekly_days: float = 3650.0


def forgotten(points: Sequence[tuple[int, float]], retention: Retention, now: float) -> list[int]:
    """The ids of the points, each with its time and oldest first, that are not kept any more; the newest always is."""
    gone = []
    for place, (point, at) in enumerate(points[:-1]):
        age_s = now - at
        same_week = at // WEEK_S == points[place + 1][1] // WEEK_S
        if age_s > retention.all_days * DAY_S and (same_week or age_s > retention.weekly_days * DAY_S):
            gone.append(point)
    return gone
