"""``kernelsmith`` as it is, but for its clock, the workers' recorded runner and how long a process that ended waits."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from service import cli, deliveries
from service.publisher import publisher
from tests.faults.clock import clock_of
from workers import embedded, processes, runtime
from workers.settings import Settings, environment_with

DESK = "KERNELSMITH_TESTS_DESK"
CLOCK = clock_of(Path(os.environ[DESK]))
build = runtime.build


def with_clock(settings: Settings) -> runtime.Runtime:
    """Build the process's runtime with the clock of the tests."""
    made = build(settings)
    made.clock = CLOCK
    return made


def with_desk(settings: Settings, *, asks_models: bool = True) -> dict[str, str]:
    """Tell the workers of the tests, beside what they get, where the test says what they shall do."""
    return environment_with(settings, asks_models=asks_models) | {DESK: os.environ[DESK]}


if __name__ == "__main__":
    # A process that a test kills again and again is no process that keeps failing.
    processes.MAX_PAUSE_S = processes.FIRST_PAUSE_S
    # Nor is a GitHub that a trial has fail every few seconds one that is down for a night.
    deliveries.LONGEST_PAUSE_S = publisher.LONGEST_PAUSE_S = 8.0
    processes.environment_with = with_desk
    runtime.build = with_clock
    embedded.serve_workers = functools.partial(embedded.serve_workers, app="tests.faults.worker_app")
    cli.main()
