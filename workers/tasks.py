"""The Celery tasks: each takes an id, looks into the database for what there is to do, and may come twice."""

from __future__ import annotations

import signal
import sys

from celery import shared_task
from celery.signals import setup_logging, worker_process_init

from workers.broker import MAINTENANCE_QUEUE
from workers.engine.advance import advance as advance_job
from workers.gpu_host.standby import Standby
from workers.gpu_host.supervise import serve
from workers.observability import configure
from workers.runtime import Runtime, current
from workers.settings import Settings
from workers.stages.table import STAGES
from workers.upkeep import collect as collect_all
from workers.upkeep import reconcile as reconcile_all

SETTINGS = Settings()
SOFT_MARGIN_S = 30.0
STANDBY = Standby()  # of the process that serves this host's GPU


def _runtime() -> Runtime:
    return current(lambda: STAGES)


def _limits(time_s: float) -> dict[str, float]:
    return {"time_limit": time_s, "soft_time_limit": time_s - SOFT_MARGIN_S}


@shared_task(name="workers.advance", **_limits(SETTINGS.stage_time_limit_s))  # type: ignore[untyped-decorator]
def advance(job_id: str) -> None:
    """Run a job's stage."""
    advance_job(_runtime(), job_id)


@shared_task(name="workers.run_gpu", **_limits(SETTINGS.gpu_time_limit_s))  # type: ignore[untyped-decorator]
def run_gpu(request_id: str) -> None:
    """Answer a GPU request."""
    serve(current(), request_id, STANDBY)


@shared_task(name="workers.upkeep", queue=MAINTENANCE_QUEUE, **_limits(120.0))  # type: ignore[untyped-decorator]
def reconcile() -> None:
    """Carry on what was left lying."""
    reconcile_all(current())


@shared_task(name="workers.collect", queue=MAINTENANCE_QUEUE, **_limits(SETTINGS.stage_time_limit_s))  # type: ignore[untyped-decorator]
def collect() -> None:
    """Remove what nothing needs any more."""
    collect_all(current())


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _after_fork(**_: object) -> None:
    # Connections of the process that this one was forked from must not be used by both.
    current().database.forget()
    # A worker that is told to end ends its processes so: what runs in them gives its lease back, and it counts as no try.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


@setup_logging.connect  # type: ignore[untyped-decorator]
def _logging(**_: object) -> None:
    configure(SETTINGS.log_level, json=SETTINGS.log_json)
