"""Starts engines that kill themselves. One process imports everything and forks for each line that it is told on its input.

Run as ``python -m tests.workers.engine.mortals``. A line in: ``{"folder", "url", "boundary", "statement", "runner"}``; a line
out: ``{"signal", "exit", "seen"}``. The engine works on the folder's pending jobs until it is idle, or kills itself with SIGKILL
at the given boundary, or right before the given SQL statement, both counted from 0.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import event

from tests.workers.store import worlds
from workers import embedded
from workers.engine.protocol import Stages
from workers.models.ledger import Models

REPOSITORY = Path(__file__).parents[3]


class Mortals:
    """The other end of it: has engines work that kill themselves."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def work(
        self, folder: Path, url: str | None, boundary: int = -1, statement: int = -1, runner: Sequence[str] = ()
    ) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"folder": str(folder), "url": url, "boundary": boundary, "statement": statement, "runner": runner}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def started(module: str = __name__) -> Iterator[Mortals]:
    """Start the process that forks."""
    command = [sys.executable, "-m", module]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=REPOSITORY, text=True, **pipes) as process:  # type: ignore[call-overload]
        yield Mortals(process)
        process.stdin.close()


def main(stages: Stages | None = None, models: Models | None = None) -> None:
    """Fork for each order; with stages and models of the caller's, or with stages that compute nothing and no model."""
    for line in sys.stdin:
        order = json.loads(line)
        seen = Path(order["folder"]) / "seen"
        child = os.fork()
        if child == 0:
            work(order, seen, stages, models)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        answer = {
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "seen": seen.read_text().split() if seen.exists() else [],
        }
        print(json.dumps(answer), flush=True)


def work(order: dict[str, Any], seen: Path, stages: Stages | None, models: Models | None = None) -> None:
    # What is printed on standard output is the answer to the order.
    os.dup2(2, 1)
    world = worlds.build(Path(order["folder"]), order["url"], stages)
    if models is not None:
        world.runtime.models = lambda: models
    counts = {"boundary": 0, "statement": 0}

    def reach(kind: str) -> None:
        if counts[kind] == order[kind]:
            os.kill(os.getpid(), signal.SIGKILL)
        counts[kind] += 1

    def at_boundary(name: str) -> None:
        with seen.open("a") as handle:
            handle.write(name + "\n")
        reach("boundary")

    world.runtime.database.migrate()
    world.runtime.at_boundary = at_boundary
    if order["runner"]:
        world.runtime.runner_command = (sys.executable, *order["runner"])
    for moment in ("before_cursor_execute", "commit"):
        event.listen(world.runtime.database.engine, moment, lambda *_: reach("statement"))
    embedded.drive()
    with seen.open("a") as handle:
        handle.write(f"statements={counts['statement']}\n")


if __name__ == "__main__":
    main()
