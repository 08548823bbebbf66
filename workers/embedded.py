"""A door: the whole production in this process, one step at a time and without a broker, or as processes of its own."""

from __future__ import annotations

import atexit
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy.exc import SQLAlchemyError

from workers import runtime as runtimes
from workers.contracts import RecordingUse
from workers.engine.advance import advance
from workers.engine.protocol import Stages
from workers.errors import WorkersError
from workers.gpu_host.standby import Standby
from workers.gpu_host.supervise import EmbeddedHost, serve
from workers.models.ledger import Models
from workers.models.protocol import redacted_question
from workers.models.recording import Recording, RecordingError, ReplayProvider, read_member, records_at, use_of
from workers.processes import HostPart, serve_workers
from workers.recorded_job import NAME, Before, Decided, RecordedJob, read_job, recorded_job, write_job
from workers.runtime import Runtime, current
from workers.settings import Settings, WrongSettingsError, load_settings, variables
from workers.store import attempts, gpu_work
from workers.store.attempts import artifacts_of
from workers.upkeep import Collected, Reconciled
from workers.upkeep import collect as collect_all
from workers.upkeep import reconcile as reconcile_all

__all__ = [
    "Collected",
    "Decided",
    "HostPart",
    "RecordedJob",
    "RecordingError",
    "SQLAlchemyError",
    "WorkersError",
    "WrongSettingsError",
    "answer_from",
    "close",
    "collect",
    "configure",
    "drive",
    "from_environment",
    "next_due_in_s",
    "reconcile",
    "record",
    "recorded",
    "recording_use",
    "serve_workers",
    "settings",
    "step",
    "variables",
]


class StoreDownError(WorkersError):
    """The database or the artifact store gives no answer."""


STANDBY = Standby()  # of this process, as far as it answers GPU requests itself
EMBEDDED_HOST = EmbeddedHost(STANDBY)
atexit.register(STANDBY.close)


def configure(data_dir: Path, redis_url: str | None = None) -> None:
    """Have this process work in a folder of its own, whatever database and Redis the environment names.

    Its database is SQLite in the folder; without ``redis_url`` this process looks for its work itself, and is the
    GPU host of its jobs while models are asked for them.

    Raises:
        WrongSettingsError: a setting of the environment cannot be used.
    """
    changes = {"database_url": None, "redis_url": None if redis_url is None else SecretStr(redis_url)}
    given = load_settings().model_copy(update=changes | {"data_dir": data_dir, "artifacts_url": None})
    runtime = runtimes.build(given)
    if redis_url is None:
        runtime.hosting = EMBEDDED_HOST.working
    runtimes.install(runtime)


def close() -> None:
    """Forget this process's configuration and close its connections."""
    runtimes.install(None)


def from_environment() -> Settings:
    """The settings of the environment.

    Raises:
        WrongSettingsError: one of them cannot be used.
    """
    return load_settings()


def settings() -> Settings:
    """The settings that this process works with."""
    return current().settings


def step(only: str | None = None) -> bool:
    """Do one unit of work: a GPU request, or a stage until it pauses or ends; False where there is none.

    With ``only``, a job's id, the work of other jobs is left to those who do it.
    """
    runtime = current(_installed_stages)
    return _gpu_step(runtime, only) or _stage_step(runtime, only)


def drive(max_steps: int | None = None, only: str | None = None) -> int:
    """Work until nothing is left, on one job where ``only`` names it, and return how many units were done."""
    done = 0
    while (max_steps is None or done < max_steps) and step(only):
        done += 1
    return done


def next_due_in_s() -> float | None:
    """How long until a stage that broke is to be tried again, None where none is."""
    runtime = current()
    with runtime.database.read() as session:
        at = attempts.due_at(session)
    return None if at is None else max(0.0, at - runtime.clock())


def reconcile() -> Reconciled:
    """Resume whatever was accepted and interrupted; idempotent."""
    return reconcile_all(current())


def collect(*, dry_run: bool = False) -> Collected:
    """Remove what nothing needs any more; a dry run only lists it.

    Raises:
        StoreDownError: the database or the artifact store cannot be reached.
    """
    try:
        return collect_all(current(), dry_run=dry_run)
    except (SQLAlchemyError, OSError) as error:
        raise StoreDownError(f"the database or the artifacts cannot be reached: {error}") from error


def record(job_id: str, path: Path, trees: tuple[str, ...] | None = None) -> int:
    """Write a job's model questions and answers as a folder or a tar archive, and return the number of questions.

    With them goes what it takes to carry the job out again, and ``trees``: git's names of the trees of its commits.

    Raises:
        LookupError: there is no such job.
    """
    runtime = current()
    with runtime.database.read() as session:
        kept = artifacts_of(session, job_id)
        job = recorded_job(session, job_id, trees)
    recording = Recording.of((name, runtime.blobs.get(digest)) for name, digest in kept)
    recording.write(path, {NAME: write_job(job)})
    return len(recording.records)


def recorded(path: Path) -> RecordedJob:
    """The job of a recording.

    Raises:
        RecordingError: there is none, or it is damaged.
    """
    return read_job(read_member(path, NAME))


def recording_use(path: Path) -> RecordingUse:
    """What the questions of a recording took, or those of records that a job keeps, by the records themselves.

    A request that had no price when it was made is priced by this process's settings.

    Raises:
        RecordingError: there is none, or it is damaged.
        WrongSettingsError: a setting cannot be used.
    """
    return use_of(records_at(path), load_settings().model_prices)


def answer_from(path: Path) -> None:
    """Answer every model question of this process from a recording.

    Verdicts that the runner gave against a candidate, and measurements, are replayed for the same one. Where no question was asked
    no model is available here either.

    Raises:
        RecordingError: there is none, or it is damaged.
    """
    runtime = current()
    recording = Recording.read(path)
    providers = (ReplayProvider(recording),) if recording.records else ()
    models = Models(providers, prepare=lambda question: redacted_question(question).question, paid=False)
    runtime.models = lambda: models
    runtime.before = Before(recorded(path))


def _installed_stages() -> Stages:
    from workers.stages.table import STAGES

    return STAGES


def _gpu_step(runtime: Runtime, only: str | None) -> bool:
    with runtime.database.read() as session:
        request_id = gpu_work.next_gpu_request(session, runtime.clock(), only=only)
    return request_id is not None and (serve(runtime, request_id, STANDBY) or True)


def _stage_step(runtime: Runtime, only: str | None) -> bool:
    with runtime.database.read() as session:
        job_id = attempts.next_job(session, runtime.clock(), only)
    return job_id is not None and advance(runtime, job_id)
