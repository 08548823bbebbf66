"""Which points are kept for how long. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S


@dataclass(frozen=True)
class Retention:
    """Every point for ``all_days``, then one a week, which is the last of its week, for ``weekly_days`` in all."""

    all_days: float = 400.0
    weekly_days: float = 3650.0


def forgotten(points: Sequence[tuple[int, float]], retention: Retention, now: float) -> list[int]:
    """The ids of the points, each with its time and oldest first, that are not kept any more; the newest always is."""
    gone = []
    for place, (point, at) in enumerate(points[:-1]):
        age_s = now - at
        same_week = at // WEEK_S == points[place + 1][1] // WEEK_S
        if age_s > retention.weekly_days * DAY_S or (age_s > retention.all_days * DAY_S and same_week):
            gone.append(point)
    return gone
