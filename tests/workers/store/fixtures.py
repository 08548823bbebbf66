"""Fixtures of the store's and the engine's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.few import few
from tests.workers.store import worlds
from tests.workers.store.servers import Postgres
from tests.workers.store.worlds import World
from workers import runtime


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    """The URL of a fresh database, None for the default one in the data folder."""
    return fresh_database(request)


@pytest.fixture(params=few(["sqlite", "postgresql"], ["sqlite"]), name="database_url")
def sqlite_first(request: pytest.FixtureRequest) -> str | None:
    """``database_url`` of a file whose tests say nothing of statements or locks: PostgreSQL is left to `make test-all`."""
    return fresh_database(request)


def fresh_database(request: pytest.FixtureRequest) -> str | None:
    if request.param == "sqlite":
        return None
    server: Postgres = request.getfixturevalue("postgres_server")
    return server.empty_database()


@pytest.fixture
def world(tmp_path: Path, database_url: str | None) -> Iterator[World]:
    """A world on each kind of database."""
    yield worlds.build(tmp_path, database_url)
    runtime.install(None)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[World]:
    """A world on SQLite, for what has nothing to do with the database."""
    yield worlds.build(tmp_path, None)
    runtime.install(None)
