"""Where the seconds of an action go: spans with names, added up in this process, which carries out one action at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_LEAST_S = 0.001  # shorter spans are left out

_lock = threading.Lock()
_spent: dict[str, float] = {}


def begin() -> None:
    """Forget what an action before this one took."""
    with _lock:
        _spent.clear()


@contextmanager
def span(name: str) -> Iterator[None]:
    """Add the time that what is done inside takes to a name; also where it ends with an exception."""
    start = time.monotonic()
    try:
        yield
    finally:
        took = time.monotonic() - start
        with _lock:
            _spent[name] = _spent.get(name, 0.0) + took


def add(rows: Iterable[tuple[str, float]]) -> None:
    """Add what another process of the same action took, in seconds by name."""
    with _lock:
        for name, seconds in rows:
            _spent[name] = _spent.get(name, 0.0) + seconds


def spent() -> tuple[tuple[str, float], ...]:
    """Seconds by name, the longest first. Concurrent spans count in full for each."""
    with _lock:
        rows = sorted(_spent.items(), key=lambda row: (-row[1], row[0]))
    return tuple((name, round(seconds, 3)) for name, seconds in rows if seconds >= _LEAST_S)
