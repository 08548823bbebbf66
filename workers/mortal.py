"""Processes that do not outlive the one that started them, however that one ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launch.py")


def mortal(command: Sequence[str]) -> list[str]:
    """A command line that runs ``command`` and dies with the thread that starts it."""
    return [sys.executable, "-IS", str(LAUNCHER), str(os.getpid()), *command]
