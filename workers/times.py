"""Times as people and pages read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(at: float | None) -> str | None:
    """A time as ISO 8601 in UTC, to the millisecond."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
