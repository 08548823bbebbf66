"""The report of the role ``suite``, written in the processes below its child: a line of JSON for each test or import.

A pytest plugin for the outcomes of tests, and a program that tries imports and looks for installed packages.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
import time
from typing import Any

_WORST_CHARS = 2000


def pytest_configure(config: Any) -> None:
    """Have kernels of cuTile and CuTe DSL interpreted where tests of them run without a GPU."""
    for name in os.environ.get("KERNELSMITH_INTERPRETED", "").split():
        importlib.import_module(f"gpu_runner.program.{name}").stand_in()


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


PACKAGE = "package:"
MAX_MESSAGE_CHARS = 1000


def main(words: list[str]) -> None:
    """Try each of the words."""
    for word in words:
        begin = time.monotonic()
        outcome, message = _tried(word)
        write_line(word, outcome, time.monotonic() - begin, message)


def _tried(word: str) -> tuple[str, str | None]:
    try:
        if word.startswith(PACKAGE):
            importlib.metadata.version(word.removeprefix(PACKAGE))
        else:
            importlib.import_module(word)
    except ImportError as error:
        return "failed", f"{error.name or word}: {error}"[:MAX_MESSAGE_CHARS]
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise whatever it likes as it is imported
        return "skipped", f"{type(error).__name__}: {error}"[:MAX_MESSAGE_CHARS]
    return "passed", None


if __name__ == "__main__":
    main(sys.argv[1:])
