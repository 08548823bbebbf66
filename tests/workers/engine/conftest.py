"""The fixtures of this folder's tests."""

from __future__ import annotations

import pytest

from tests.few import few
from tests.workers.store.fixtures import fresh_database, local, world

__all__ = ["local", "world"]


@pytest.fixture(params=few(["sqlite", "postgresql"], ["sqlite"]))
def database_url(request: pytest.FixtureRequest) -> str | None:
    """As in the store's tests, which try every statement on both kinds; the engine's on PostgreSQL are left to test-all."""
    return fresh_database(request)
