"""Text and time as the store keeps them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from workers.redaction import redact

MAX_TEXT = 20_000


def storable(text: str, limit: int = MAX_TEXT) -> str:
    """Give text that every database takes and everybody may read: no NUL, no lone surrogate, no secret, bounded."""
    cleaned = redact(text).replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def iso(at: float | None) -> str | None:
    """Give a time as ISO 8601 in UTC, to the millisecond."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
