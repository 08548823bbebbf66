"""The clock of an installation's processes, which a test may put forward and back while they run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

NAME = "clock"


def clock_of(desk: Path) -> Callable[[], float]:
    """Give the time with what the desk adds to it."""

    def now() -> float:
        offset_s = 0.0
        with contextlib.suppress(OSError, ValueError):
            offset_s = float((desk / NAME).read_text())
        return time.time() + offset_s

    return now


def put(desk: Path, offset_s: float) -> None:
    """Put the clock forward, or back, from the real time."""
    draft = desk / f"{NAME}.draft"
    draft.write_text(str(offset_s))
    draft.replace(desk / NAME)
