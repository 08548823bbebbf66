"""``kernelsmith`` as it is, but for the workers' recorded runner and for how long a process that ended waits."""

from __future__ import annotations

import functools
import sys

from service import cli
from workers import embedded, processes

if __name__ == "__main__":
    # A process that a test kills again and again is no process that keeps failing.
    processes.MAX_PAUSE_S = processes.FIRST_PAUSE_S
    embedded.serve_workers = functools.partial(embedded.serve_workers, app="tests.faults.worker_app")
    cli.app(sys.argv[1:])
