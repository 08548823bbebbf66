"""GitHub's own log of a GitHub App's webhook deliveries: which of them did not arrive, and asking for them again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

PAGE_ITEMS = 100
MAX_PAGES = 20
MOST_ATTEMPTS = 4  # of one delivery, the first one too
SUCCESS = range(200, 300)

# Verb and path to the headers and the JSON of the answer, asked with the App's own credentials.
Ask = Callable[[str, str], tuple[dict[str, Any], Any]]


@dataclass(frozen=True)
class HookAttempt:
    """One attempt of a delivery; attempts of the same delivery share its ``delivery_id``."""

    attempt_id: int
    delivery_id: str
    event: str
    delivered_at: datetime
    status_code: int


def attempts_since(ask: Ask, since: datetime) -> Iterator[HookAttempt]:
    """Give the attempts since a time, newest first."""
    path = f"/app/hook/deliveries?per_page={PAGE_ITEMS}"
    for _ in range(MAX_PAGES):
        headers, items = ask("GET", path)
        for item in items:
            attempt = _attempt(item)
            if attempt.delivered_at < since:
                return
            yield attempt
        following = re.search(r"[?&]cursor=([^&>]+)[^>]*>;\s*rel=\"next\"", str(headers.get("link", "")))
        if following is None:
            return
        path = f"/app/hook/deliveries?per_page={PAGE_ITEMS}&cursor={following[1]}"


def missed(attempts: Iterable[HookAttempt], handles: Callable[[str], bool]) -> tuple[HookAttempt, ...]:
    """Give the last attempt of each delivery that never arrived and may be asked for again, oldest first. Pure."""
    tried: dict[str, list[HookAttempt]] = {}
    for attempt in attempts:
        tried.setdefault(attempt.delivery_id, []).append(attempt)
    lost = [
        max(found, key=lambda attempt: attempt.delivered_at)
        for found in tried.values()
        if handles(found[0].event)
        and len(found) < MOST_ATTEMPTS
        and not any(attempt.status_code in SUCCESS for attempt in found)
    ]
    return tuple(sorted(lost, key=lambda attempt: attempt.delivered_at))


def ask_again(ask: Ask, attempt: HookAttempt) -> None:
    """Have GitHub deliver something once more, under the same delivery id."""
    ask("POST", f"/app/hook/deliveries/{attempt.attempt_id}/attempts")


def _attempt(item: dict[str, Any]) -> HookAttempt:
    return HookAttempt(
        int(item["id"]),
        str(item["guid"]),
        str(item["event"]),
        datetime.fromisoformat(str(item["delivered_at"])),
        int(item["status_code"] or 0),
    )
