"""``kernelsmith`` as it is, but for the workers' recorded runner and for how long a process that ended waits."""

from __future__ import annotations

import functools
import os
import sys

from service import cli
from workers import embedded, processes
from workers.settings import Settings, environment_with

DESK = "KERNELSMITH_TESTS_DESK"


def with_desk(settings: Settings, *, asks_models: bool = True) -> dict[str, str]:
    """Tell the workers of the tests, beside what they get, where the test says what they shall do."""
    return environment_with(settings, asks_models=asks_models) | {DESK: os.environ[DESK]}


if __name__ == "__main__":
    # A process that a test kills again and again is no process that keeps failing.
    processes.MAX_PAUSE_S = processes.FIRST_PAUSE_S
    processes.environment_with = with_desk
    embedded.serve_workers = functools.partial(embedded.serve_workers, app="tests.faults.worker_app")
    cli.app(sys.argv[1:])
