"""Processes in which Triton is in its interpreter, which is chosen when it is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def interpreted(module: str, cases: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What a module of this folder finds in cases, from one process."""
    files = folder / "cases.json", folder / "results.json"
    files[0].write_text(json.dumps(cases))
    command = [sys.executable, "-m", f"tests.workers.compiler.{module}", *map(str, files)]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    results: dict[str, Any] = json.loads(files[1].read_text())
    return results
