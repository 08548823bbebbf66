"""The production as processes of its own: Redis where none is configured, Celery workers, and the clock of reconcile."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import structlog
from pydantic import SecretStr

from gpu_runner.removal import remove_or_report
from workers import runtime as runtimes
from workers.broker import (
    MAINTENANCE_QUEUE,
    STAGES_QUEUE,
    CeleryNotifier,
    gpu_queue,
    private_path,
    redis_command,
    socket_path,
    wait_until_up,
)
from workers.environment import plain_environment
from workers.errors import WorkersError
from workers.gpu_host.runner import detect, detect_uuid
from workers.mortal import mortal
from workers.settings import Settings, environment_with
from workers.store.gpu_work import ANY, forget_offers
from workers.store.private import private_folder

log = structlog.get_logger(__name__)

START_S = 20.0
# How a process is asked to end, and how long it is waited for: a worker first takes nothing new, then it gives back what it holds.
ENDING = ((signal.SIGTERM, 5.0), (signal.SIGQUIT, 10.0))
STOP_S = 20.0
POLL_S = 0.2
FIRST_PAUSE_S = 0.2
MAX_PAUSE_S = 30.0
STEADY_S = 20.0  # after which a process that was started again is well
COLLECT_EVERY_S = 86_400.0


class HostPart(StrEnum):
    """What a host works on where it does not work on everything."""

    stages = "stages"  # and the clock
    gpu = "gpu"


class DataFolderInUseError(WorkersError):
    """Another process serves the same data folder."""


class DataFolderUnusableError(WorkersError):
    """The data folder cannot be made or written to."""


@dataclass(frozen=True)
class ManagedProcess:
    """A process that is kept running."""

    name: str
    arguments: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=plain_environment, repr=False)  # the whole of it


class Supervisor:
    """Keeps processes running: one that ends is started again, after a pause that grows while it keeps ending."""

    def __init__(self, commands: tuple[ManagedProcess, ...]) -> None:
        self._commands = commands
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.pids: dict[str, int] = {}
        self._ended: dict[str, tuple[str, float]] = {}  # how a process ended, and when it was started again

    def check(self) -> tuple[bool, str]:
        """Whether all processes run steadily, and if not how they end."""
        now = time.monotonic()
        unsteady = [f"{name} ended ({how})" for name, (how, at) in self._ended.items() if now - at < STEADY_S]
        return not unsteady, ", ".join(unsteady) or "all run"

    def start(self) -> None:
        """Start everything."""
        for command in self._commands:
            thread = threading.Thread(target=self._keep, args=(command,), name=command.name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End everything: asked first, killed where that does not help in time."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=STOP_S + 10)

    def _keep(self, command: ManagedProcess) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stop.is_set():
            started = time.monotonic()
            ended = self._run(command)
            if self._stop.is_set():
                return
            pause_s = FIRST_PAUSE_S if time.monotonic() - started > MAX_PAUSE_S else min(MAX_PAUSE_S, pause_s * 2)
            log.error("process_ended", process=command.name, how=ended, starts_again_in_s=pause_s)
            self._ended[command.name] = (ended, time.monotonic() + pause_s)
            self._stop.wait(pause_s)

    def _run(self, command: ManagedProcess) -> str:
        try:
            with self._started(command) as child:
                self.pids[command.name] = child.pid
                self._watch(child)
        except OSError as error:
            return f"it could not be started: {error}"
        return f"exit code {child.returncode}"

    def _started(self, command: ManagedProcess) -> subprocess.Popen[bytes]:
        # In a session of its own: a terminal sends Ctrl-C and its end to all of its session, also to what is still needed to stop.
        return subprocess.Popen(
            mortal(command.arguments),
            env=command.environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _watch(self, child: subprocess.Popen[bytes]) -> None:
        while child.poll() is None:
            if self._stop.wait(POLL_S):
                for number, patience_s in ENDING:
                    child.send_signal(number)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.wait(patience_s)
                        return
                child.kill()
                return


@contextmanager
def serve_workers(
    settings: Settings, app: str = "workers.celery_app", only: HostPart | None = None
) -> Iterator[Supervisor]:
    """Run Redis where none is configured, the workers and the clock, and have this process send them its messages.

    Raises:
        DataFolderInUseError: another process serves the same data folder.
        DataFolderUnusableError: it cannot be written to.
        BrokerDownError: Redis does not answer.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_sole_owner(settings))
        temporary = stack.enter_context(_temporary(settings))
        if settings.redis_url is None:
            settings = stack.enter_context(_embedded_redis(settings))
        wait_until_up(settings, START_S)
        runtimes.install(runtimes.build(settings))
        database = runtimes.current().database
        database.migrate()
        if only is None:
            with database.write() as session:
                forget_offers(session)
        if only is not HostPart.gpu:
            stack.enter_context(_clock(settings))
        placed = tuple(_with_temporary(command, temporary) for command in commands(settings, app, only))
        yield stack.enter_context(_supervised(Supervisor(placed)))


@contextmanager
def _sole_owner(settings: Settings) -> Iterator[None]:
    path = settings.data_dir / "serve.lock"
    try:
        private_folder(settings.data_dir)
        opened = path.open("wb")
    except OSError as error:
        fix = "give its user the right to write there, or set KERNELSMITH_DATA_DIR"
        raise DataFolderUnusableError(f"the data folder cannot be used ({error}): {fix}") from error
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            fix = "stop it, or give this one another KERNELSMITH_DATA_DIR"
            raise DataFolderInUseError(f"another process serves {settings.data_dir}: {fix}") from error
        yield


@contextmanager
def _temporary(settings: Settings) -> Iterator[Path]:
    """A temporary directory for the workers, below that of this process: whatever a kill left there goes at once.

    Whoever serves the data folder owns it, so that nobody else is at work in it.
    """
    folder = private_path(settings.data_dir)
    remove_or_report(folder)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to somebody else")
    except OSError as error:
        raise DataFolderUnusableError(f"the temporary directory cannot be used ({error}): set TMPDIR") from error
    try:
        yield folder
    finally:
        remove_or_report(folder)


def _with_temporary(command: ManagedProcess, folder: Path) -> ManagedProcess:
    return replace(command, environment=command.environment | {"TMPDIR": str(folder)})


@contextmanager
def _embedded_redis(settings: Settings) -> Iterator[Settings]:
    socket = socket_path(settings.data_dir)
    command = ManagedProcess("redis", redis_command(socket, settings.data_dir))
    with _supervised(Supervisor((command,))):
        yield settings.model_copy(update={"redis_url": SecretStr(f"redis+socket://{socket}")})


@contextmanager
def _supervised(supervisor: Supervisor) -> Iterator[Supervisor]:
    try:
        supervisor.start()
        yield supervisor
    finally:
        supervisor.stop()


@contextmanager
def _clock(settings: Settings) -> Iterator[None]:
    """Send the message of reconcile, at once and then every so many seconds, and that of upkeep, at once and then every day."""
    stopping, notifier, every_s = threading.Event(), CeleryNotifier(settings), settings.reconcile_every_s

    def tick() -> None:
        collected_at = None
        while True:
            try:
                notifier.reconcile(expires_s=every_s)
                if collected_at is None or time.monotonic() - collected_at > COLLECT_EVERY_S:
                    notifier.collect(expires_s=COLLECT_EVERY_S)
                    collected_at = time.monotonic()
            # The boundary of the thread: without it what is left lying would never be found again.
            except Exception:
                log.exception("clock_fault")
            if stopping.wait(every_s):
                return

    thread = threading.Thread(target=tick, name="clock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(STOP_S)


def commands(
    settings: Settings, app: str = "workers.celery_app", only: HostPart | None = None
) -> tuple[ManagedProcess, ...]:
    """The processes: a worker for stages and one for this host's GPU, or one of them.

    Each has the settings that it works by: the GPU's worker asks no model and has no key of one.
    """
    architecture = settings.architecture or detect()
    stages = ("-Q", f"{STAGES_QUEUE},{MAINTENANCE_QUEUE}", "-c", str(settings.stage_processes), "-n", "stages@%h")
    served = [architecture, ANY, *filter(None, [detect_uuid()])]
    gpu = ("-Q", ",".join(map(gpu_queue, served)), "-c", "1", "-n", "gpu@%h")
    celery = (sys.executable, "-m", "celery", "-q", "-A", app)
    quiet = ("--without-gossip", "--without-mingle", "--loglevel", settings.log_level)
    kept = (ManagedProcess("stages", (*celery, "worker", *stages, *quiet), environment_with(settings)),)
    alone = environment_with(settings, asks_models=False)
    host = (ManagedProcess("gpu", (*celery, "worker", *gpu, *quiet), alone),)
    return {HostPart.stages: kept, HostPart.gpu: host, None: (*kept, *host)}[only]
