"""The product's Celery app with the recorded runner, for workers that tests start; they wait where a test told them to."""

from __future__ import annotations

import os
from functools import partialmethod
from pathlib import Path

from kombu import Connection

from tests import outlined
from tests.faults.clock import clock_of
from tests.recorded import runner
from tests.recorded.pause import pause
from workers import runtime
from workers.celery_app import app
from workers.settings import Settings

# A worker whose Redis a test kills looks for it again five times a second; Celery, which has no setting for it, waits 2, 4, 6 s.
Connection.ensure_connection = partialmethod(Connection.ensure_connection, interval_start=0.2, interval_step=0)

outlined.outline()
DESK = Path(os.environ["KERNELSMITH_TESTS_DESK"])

_runtime = runtime.build(Settings())
_runtime.clock = clock_of(DESK)
_runtime.runner_command = runner.command(DESK)
_runtime.at_boundary = lambda name: pause(DESK, name)
runtime.install(_runtime)

__all__ = ["app"]
