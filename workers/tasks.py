"""The Celery tasks: each takes an id, looks into the database for what there is to do, and may come twice."""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable
from typing import Any

import structlog
from celery import shared_task
from celery.signals import setup_logging, worker_process_init

from workers.engine.advance import advance as advance_job
from workers.gpu_host.standby import Standby
from workers.gpu_host.supervise import serve
from workers.observability import configure
from workers.runtime import Runtime, current
from workers.settings import Settings
from workers.stages.table import STAGES
from workers.store.trouble import trouble_of
from workers.upkeep import collect as collect_all
from workers.upkeep import reconcile as reconcile_all

SETTINGS = Settings()
SOFT_MARGIN_S = 30.0
STANDBY = Standby()  # of the process that serves this host's GPU

log = structlog.get_logger(__name__)


def _runtime() -> Runtime:
    return current(lambda: STAGES)


def _task(name: str, time_s: float) -> Callable[[Callable[..., None]], Any]:
    """A task that logs what to do where the database or the artifacts cannot be used; the clock finds what it left undone."""

    def decorate(run: Callable[..., None]) -> Any:
        @functools.wraps(run)
        def task(*ids: str) -> None:
            try:
                run(*ids)
            # The boundary of tasks: Celery would log a traceback for each try on a full disk, and no word of what to do.
            except Exception as error:
                trouble = trouble_of(error)
                if trouble is None:
                    raise
                log.error("store_unusable", task=name, error=trouble.detail, fix=trouble.fix)

        limits = {"time_limit": time_s, "soft_time_limit": time_s - SOFT_MARGIN_S}
        return shared_task(name=name, **limits)(task)

    return decorate


@_task("workers.advance", SETTINGS.stage_time_limit_s)
def advance(job_id: str) -> None:
    """Run a job's stage."""
    advance_job(_runtime(), job_id)


@_task("workers.run_gpu", SETTINGS.gpu_time_limit_s)
def run_gpu(request_id: str) -> None:
    """Answer a GPU request."""
    serve(current(), request_id, STANDBY)


@_task("workers.upkeep", 120.0)
def reconcile() -> None:
    """Carry on what was left lying."""
    reconcile_all(current())


@_task("workers.collect", SETTINGS.stage_time_limit_s)
def collect() -> None:
    """Remove what nothing needs any more."""
    collect_all(current())


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _after_fork(**_: object) -> None:
    # Connections of the process that this one was forked from must not be used by both.
    current().database.forget()
    # A worker that is told to end ends its processes so: what runs in them gives its lease back, and it counts as no try.
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, _frame: object) -> None:
    # A second signal would cut short what is given back.
    signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


@setup_logging.connect  # type: ignore[untyped-decorator]
def _logging(**_: object) -> None:
    configure(SETTINGS.log_level, json=SETTINGS.log_json)
