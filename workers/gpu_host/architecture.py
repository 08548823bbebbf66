"""Which GPU architecture a host has."""

from __future__ import annotations

import re
import shutil
import subprocess

from workers.environment import plain_environment

INTERPRETER = "interpreter"


def detect() -> str:
    """The architecture of the first GPU, such as ``sm_90``, or ``interpreter`` where there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return INTERPRETER
    try:
        asked = subprocess.run(
            [tool, "--query-gpu=compute_cap", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env=plain_environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return INTERPRETER
    return parse_capability(asked.stdout) if asked.returncode == 0 else INTERPRETER


def parse_capability(output: str) -> str:
    """The architecture from what nvidia-smi printed, such as ``9.0``."""
    found = re.match(r"\s*(\d+)\.(\d+)\s*$", output.split("\n", 1)[0])
    return f"sm_{found[1]}{found[2]}" if found else INTERPRETER
