"""Places where a process waits because a test told it to, so that the test can kill it there."""

from __future__ import annotations

import os
import time
from pathlib import Path

LONGEST_S = 300.0


def pause(desk: Path, place: str) -> None:
    """Wait here for as long as the desk says so; ``paused/PLACE`` holds the process's id meanwhile."""
    order = desk / "pause" / place
    if not order.exists():
        return
    told = desk / "paused" / place
    draft = told.with_name(f"{place}.{os.getpid()}")
    draft.write_text(str(os.getpid()))
    draft.replace(told)
    deadline = time.monotonic() + LONGEST_S
    while order.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
