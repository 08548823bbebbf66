"""What a process of the production works with: its settings, database, artifacts, clock, messages and stages."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from workers.models.ledger import Models, no_models
from workers.recorded_job import Before
from workers.redaction import know
from workers.settings import Settings, secret_values
from workers.store.blobs import BlobStore
from workers.store.clock import DatabaseClock
from workers.store.database import Database

if TYPE_CHECKING:
    from workers.engine.protocol import Stages


class Notifier(Protocol):
    """How other processes hear that there is work. A message that is lost costs time only: reconcile finds the work."""

    def advance(self, job_id: str) -> None:
        """Announce that a job can go on."""
        ...

    def gpu(self, request_id: str, architecture: str) -> None:
        """Announce that a GPU request waits."""
        ...


class SilentNotifier:
    """For processes that look for work themselves."""

    def advance(self, job_id: str) -> None: ...

    def gpu(self, request_id: str, architecture: str) -> None: ...


def no_stages() -> Stages:
    """Of a process that submits jobs and runs none."""
    return {}


def installed_models(settings: Settings) -> Models:
    """The models that the settings name."""
    from workers.models.settings import installed

    return installed(settings, secret_values())


def hosts_elsewhere(_runtime: Runtime, _job_id: str) -> AbstractContextManager[None]:
    """Answer no GPU request: other processes do, or this one does by turns."""
    return nullcontext()


@dataclass
class Runtime:
    """One process's tools. ``stages`` come from whoever runs jobs; they and ``models`` are called when they are needed."""

    settings: Settings
    database: Database
    blobs: BlobStore
    notifier: Notifier = field(default_factory=SilentNotifier)
    stages: Callable[[], Stages] = no_stages
    models: Callable[[], Models] = no_models
    clock: Callable[[], float] = time.time
    runner_command: tuple[str, ...] = (sys.executable, "-m", "gpu_runner")
    # Answers a job's GPU requests while models are asked for it, where no other process does.
    hosting: Callable[[Runtime, str], AbstractContextManager[None]] = hosts_elsewhere
    before: Before = field(default_factory=Before)  # in a replay: what the runner said then and would not say again
    at_boundary: Callable[[str], None] = lambda _name: None  # called where a process may die; fault tests kill it there


def build(settings: Settings) -> Runtime:
    """Build a runtime; it speaks to the broker where the settings name one, and may ask the models that they name."""
    know(settings.secrets())
    database = Database(settings.database())
    runtime = Runtime(settings, database, BlobStore(settings.artifacts()), clock=DatabaseClock(database))
    runtime.models = functools.cache(lambda: installed_models(settings))
    if settings.broker() is not None:
        from workers.broker import CeleryNotifier

        runtime.notifier = CeleryNotifier(settings)
    return runtime


_guard = threading.Lock()
_current: Runtime | None = None


def current(stages: Callable[[], Stages] = no_stages) -> Runtime:
    """This process's runtime, built from the environment where none was installed; it receives ``stages`` if it has none."""
    global _current  # noqa: PLW0603 - the one place that holds the process's runtime
    with _guard:
        if _current is None:
            _current = build(Settings())
        if _current.stages is no_stages:
            _current.stages = stages
        return _current


def install(runtime: Runtime | None) -> None:
    """Make a runtime this process's own; None forgets it."""
    global _current  # noqa: PLW0603 - see ``current``
    with _guard:
        if _current is not None and _current is not runtime:
            _current.database.dispose()
        _current = runtime
