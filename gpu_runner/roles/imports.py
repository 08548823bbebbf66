"""Tries imports and looks for installed packages, a line of the report each, in a process below the child."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
import time

from gpu_runner.roles.pytest_report import write_line

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
