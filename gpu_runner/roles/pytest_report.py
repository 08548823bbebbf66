"""A pytest plugin that writes one line of JSON for each test's outcome."""

from __future__ import annotations

import json
import os
from typing import Any

_WORST_CHARS = 2000


def pytest_runtest_logreport(report: Any) -> None:
    """Write what became of a test: its call, or the set-up or tear-down that did not pass."""
    if report.when == "call" or report.outcome != "passed":
        outcome = report.outcome if report.when == "call" or report.outcome == "skipped" else "error"
        write_line(report.nodeid, outcome, report.duration, _message(report))


def pytest_collectreport(report: Any) -> None:
    """Write that a file could not be collected."""
    if report.failed:
        write_line(report.nodeid or "collection", "error", 0.0, _message(report))


def _message(report: Any) -> str | None:
    if report.outcome == "passed":
        return None
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:_WORST_CHARS]
    return str(report.longrepr)[-_WORST_CHARS:]


def write_line(node: str, outcome: str, duration_s: float, message: str | None) -> None:
    """Add what became of one test to the report."""
    line = json.dumps({"node": node, "outcome": outcome, "duration_s": duration_s, "message": message})
    with open(os.environ["KERNELSMITH_REPORT"], "a", encoding="utf-8") as file:  # noqa: PTH123 - pathlib adds nothing here
        file.write(line + "\n")
