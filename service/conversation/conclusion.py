"""How a check run ends, in GitHub's words."""

from __future__ import annotations

from enum import StrEnum


class Conclusion(StrEnum):
    """What a check run comes to."""

    success = "success"
    failure = "failure"
    neutral = "neutral"
    cancelled = "cancelled"
