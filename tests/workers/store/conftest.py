"""The fixtures of this folder's tests."""

from tests.workers.store.fixtures import database_url, local, world

__all__ = ["database_url", "local", "world"]
